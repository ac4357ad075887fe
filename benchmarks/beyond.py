"""What goes past identification: fewer answers than the count, who was in a deletion, records of one class told apart.

- below: labels of single deletions from m answers of a designed probe, m = 0 to ceil(d/c), the attacker's own gram for
  the rest (`estimate.partial`, `recover.partial`; without any answer `recover.passive`).
- membership: the chance that a member of a deleted client or class looks more like one than another record of the same
  classes does, from blocks as differencing finds them (`recover.membership`); only deletions of fewer than d records.
- unmixed: error of two to eight records of one class deleted in one broadcast (`recover.unmixed`), beside that of their
  mean.

    python benchmarks/beyond.py                                     # digits, random-relu, d = 128
    python benchmarks/beyond.py --data mnist --encoder resnet18     # the paper's split 0, with the features at hand
"""

import argparse
import json
import math

import numpy as np
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from exhume.attack import estimate, probes, recover
from exhume.attack.recover.membership import ranking
from exhume.attack.session import Attack
from exhume.attack.state import State
from exhume.data import dirichlet, load_features, select_attacker
from exhume.errors import ExhumeError
from exhume.numerics import relative
from exhume.protocol import Head, Update, round_to
from exhume.simulate.federation import Federation
from exhume.simulate.scenario import Scenario

GAMMA = 1e-3
WRONG = 0.1
"""Records that are off by more than this share were not told apart, whatever the attacker's own check says."""


def head_without(case, A, rows, precision):
    """The public head after a deletion, by the evaluator's own algebra: no server is copied for each record."""
    gone = case.summary(rows)
    weights = np.linalg.solve(A - gone.gram, case.total.moment - gone.moment)
    return Head(round_to(weights, precision), precision)


def below(case, options):
    """Labels of single deletions against answers."""
    server = Federation.bare(case, "float64").server
    A = case.total.gram + case.gamma * np.eye(case.d)
    least = math.ceil(case.d / case.classes)
    transcript = Attack(server.as_target("attacker")).run(probes.designed(case.d, case.classes))
    guess = estimate.gram_guess(case.own[0], sum(map(len, case.parts)))
    rows = np.random.default_rng(0).choice(case.others, options.deletions, replace=False)
    after = [head_without(case, A, np.array([row]), "float64") for row in rows]
    out = []
    for m in sorted({0, least // 4, least // 2, 3 * least // 4, least - 1, least}):
        state = State.of(guess, transcript.baseline) if m == 0 else estimate.partial(transcript.first(m), guess=guess)
        found = [recover.partial(state, head, nonnegative=case.nonnegative) for head in after]
        right = sum(f.label == case.labels[row] for f, row in zip(found, rows, strict=True))
        errors = [
            relative(f.feature - case.features[row], case.features[row]) for f, row in zip(found, rows, strict=True)
        ]
        out.append(
            {
                "answers": m,
                "of": least,
                "labels": right,
                "deletions": len(rows),
                "median_feature_error": float(np.median(errors)),
            }
        )
    return out


def others_like(case, rows, count, rng):
    """Records that were not deleted, of the deleted ones' classes in their proportions."""
    pool = np.setdiff1d(case.others, rows)
    weight = np.bincount(case.labels[rows], minlength=case.classes)[case.labels[pool]].astype(float)
    weight /= np.maximum(np.bincount(case.labels[pool], minlength=case.classes), 1)[case.labels[pool]]
    return rng.choice(pool, min(count, int(np.count_nonzero(weight))), replace=False, p=weight / weight.sum())


def members(case, options, precision):
    """Ranking of members against others, from differenced states, for the smallest honest clients."""
    rng = np.random.default_rng(0)
    sizes = [(len(case.parts[k]), k) for k in case.honest if 5 <= len(case.parts[k]) < case.d]
    out = []
    for size, k in sorted(sizes)[:: max(len(sizes) // options.clients_tried, 1)][: options.clients_tried]:
        rows = case.parts[k]
        server = Federation.bare(case, precision).server
        attack = Attack(server.as_target("attacker"))
        before = attack.identify(probes.designed(case.d, case.classes), estimate=estimate.symmetric)
        server.submit(Update.deleting(case.summary(rows)), "honest")
        after = attack.identify(probes.designed(case.d, case.classes), estimate=estimate.symmetric)
        block = recover.difference(before, after, records=None).block
        others = others_like(case, rows, 500, rng)
        found = recover.membership(block, case.features[np.concatenate([rows, others])])
        truth = case.summary(rows)
        out.append(
            {
                "heads": precision,
                "records": size,
                "gram_error": relative(block.gram - truth.gram, truth.gram),
                "auc": ranking(found.outside[:size], found.outside[size:]),
            }
        )
    return out


def told_apart(case, options, precision):
    """Error of records of one class deleted in one broadcast, from one head after a state that a probe identified."""
    rng = np.random.default_rng(0)
    server = Federation.bare(case, precision).server
    solve = estimate.direct if precision == "float64" else estimate.symmetric
    state = Attack(server.as_target("attacker")).identify(probes.designed(case.d, case.classes), estimate=solve)
    A = case.total.gram + case.gamma * np.eye(case.d)
    out = []
    for n in (2, 3, 5, 8):
        errors, means, sure, wrong, refused = [], [], 0, 0, 0
        for _ in range(options.groups):
            label = int(rng.integers(case.classes))
            rows = rng.choice(case.others[case.labels[case.others] == label], n, replace=False)
            F = case.features[rows]
            means.append(float(np.mean([relative(F.mean(axis=0) - f, f) for f in F])))
            try:
                found = recover.unmixed(state, head_without(case, A, rows, precision), records=n, nonnegative=True)
            except ExhumeError:
                refused += 1
                continue
            got = np.array([sample.feature for sample in found.diagnostics.samples])
            if len(got) != n:
                refused += 1
                continue
            i, j = linear_sum_assignment(((F[:, None] - got[None]) ** 2).sum(axis=2))
            error = float(np.mean([relative(got[b] - F[a], F[a]) for a, b in zip(i, j, strict=True)]))
            errors.append(error)
            sure, wrong = sure + found.known, wrong + (found.known and error > WRONG)
        row = {"heads": precision, "records": n, "groups": options.groups, "refused": refused}
        row |= {"error": float(np.median(errors)) if errors else None, "mean_error": float(np.median(means))}
        out.append(row | {"sure": int(sure), "sure_and_wrong": int(wrong)})
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--encoder", default="random-relu")
    parser.add_argument("--dim", type=int, default=None)
    parser.add_argument("--clients", type=int, default=None, help="default: 50, or 5 for digits")
    parser.add_argument("--alpha", type=float, default=None, help="default: 0.05, or 1 for digits")
    parser.add_argument("--deletions", type=int, default=100)
    parser.add_argument("--clients-tried", type=int, default=6)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--parts", nargs="+", default=["below", "membership", "unmixed"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    small = options.data == "digits"
    features = load_features(options.data, options.encoder, dim=options.dim or (128 if small else None))
    parts = dirichlet(
        features.train_labels, options.clients or (5 if small else 50), options.alpha or (1.0 if small else 0.05), 0
    )
    attacker = select_attacker(features.train_features, parts)
    case = Scenario(features.train_features, features.train_labels, features.classes, parts, attacker, GAMMA)
    found = {}
    with threadpool_limits(1):
        if "below" in options.parts:
            found["below"] = below(case, options)
        if "membership" in options.parts:
            found["membership"] = [row for p in ("float64", "float32") for row in members(case, options, p)]
        if "unmixed" in options.parts:
            found["unmixed"] = [row for p in ("float64", "float32") for row in told_apart(case, options, p)]
    if options.json:
        print(json.dumps(found))
        return
    print(f"{options.data}, {options.encoder}, d = {features.dim}")
    for name, rows in found.items():
        for row in rows:
            print(" ", name, *(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))


if __name__ == "__main__":
    main()
