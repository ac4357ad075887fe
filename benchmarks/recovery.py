"""Labels and features recovered from single-record deletions: the paper's differencing beside the estimators past it.

One table per data set and encoder: designed and attacker-data probes, several head precisions, every deletion scored by
differencing (two identified states) and by rank-one recovery (the state before and one head after).

    python benchmarks/recovery.py                                    # digits, random-relu, d = 256
    python benchmarks/recovery.py --data mnist --encoder resnet18    # with the features at hand
    python benchmarks/recovery.py --data mnist --encoder resnet18 --splits 0 1 2 3 4 --probes own-data \\
        --precision float32 --methods rank-one                       # the paper's five splits, 500 deletions
    python benchmarks/recovery.py --data mnist --encoder resnet18 --curve   # labels against responses, coarse heads
"""

import argparse
import json
import math

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from exhume.attack import probes, recover
from exhume.attack.estimate import gram_guess
from exhume.attack.session import Attack
from exhume.attack.strategies import conditioned, zoom
from exhume.data import dirichlet, load_features, select_attacker
from exhume.errors import ExhumeError
from exhume.numerics import relative
from exhume.protocol import Heads, Server, Update
from exhume.simulate.federation import Federation
from exhume.simulate.scenario import Scenario
from exhume.simulate.trial import Campaign

GAMMA = 1e-3


def scenario(options, features, seed):
    """The paper's split for a seed; the attacker by its rank gate."""
    parts = dirichlet(features.train_labels, options.clients, options.alpha, seed)
    attacker = select_attacker(features.train_features, parts)
    return Scenario(features.train_features, features.train_labels, features.classes, parts, attacker, GAMMA)


def targets(case, count, seed):
    return np.random.default_rng(seed).choice(case.others, count, replace=False)


def probe_of(name, case, seed):
    if name == "designed":
        return probes.designed(case.d, case.classes)
    responses = min(2 * math.ceil(case.d / case.classes), len(case.own[0]))
    return probes.own_data(*case.own, case.classes, responses=responses, rng=np.random.default_rng(seed))


def score(found):
    done = [r for r in found if r is not None]
    errors = [r.relerr_feature for r in done if r.label_correct]
    return {
        "labels": sum(bool(r.label_correct) for r in done),
        "answered": len(done),
        "median_feature_error": float(np.median(errors)) if errors else None,
        "known": sum(bool(r.known) for r in done),
        "known_and_wrong": sum(bool(r.known) and not r.label_correct for r in done),
    }


def run_cell(options, features, split, probe, precision):
    with threadpool_limits(1):
        case = scenario(options, features, split)
        campaign = Campaign(Federation.bare(case, precision), probe_of(probe, case, split))
        rows = targets(case, options.deletions, split)
        trials = [campaign.trial(np.array([row]), methods=tuple(options.methods)) for row in rows]
    return {
        "split": split,
        "probe": probe,
        "precision": precision,
        "state_error": campaign.state_error,
        "state_error_symmetric": campaign.state_error_sharper,
        "deletions": len(rows),
        **{method: score([t.recovery(method) for t in trials]) for method in options.methods},
    }


def curve_cell(options, features, split, precision):
    """Labels against responses: attacker-data averaging, and conditioned probes with zoom."""
    with threadpool_limits(1):
        case = scenario(options, features, split)
        rows = targets(case, options.deletions, split)
        positive = bool(features.train_features.min() >= 0)
        return [*averaging(case, rows, precision, split, positive), *zooming(case, rows, precision)]


def after_deletion(case, ledger, row, precision):
    server = Server(ledger.copy(), release=Heads(precision))
    server.submit(Update.deleting(case.summary(np.array([row]))), "honest")
    return server


def tally(case, rows, found):
    right = [(f, row) for f, row in zip(found, rows, strict=True) if f[0] == case.labels[row]]
    errors = [relative(f[1] - case.features[row], case.features[row]) for f, row in right]
    return {
        "labels": len(right),
        "deletions": len(rows),
        "median_feature_error": float(np.median(errors)) if errors else None,
    }


def averaging(case, rows, precision, split, positive):
    out = []
    for responses in (104, 208):
        if responses > len(case.own[0]):
            continue
        probe = probes.own_data(*case.own, case.classes, responses=responses, rng=np.random.default_rng(split))
        campaign = Campaign(Federation.bare(case, precision), probe)
        if campaign.sharper is None:
            out.append(
                {
                    "method": "averaging",
                    "precision": precision,
                    "responses_before": responses,
                    "labels": 0,
                    "deletions": len(rows),
                }
            )
            continue
        for after in (0, responses // 4, responses):
            found = []
            for row in rows:
                server = after_deletion(case, campaign.federation.server.ledger, row, precision)
                if after == 0:
                    one = recover.rank_one(campaign.sharper, server.head(), nonnegative=positive)
                else:
                    attack = campaign.attack.facing(server.as_target("attacker"))
                    few = probes.own_data(*case.own, case.classes, responses=after, rng=np.random.default_rng(split))
                    one = recover.averaged(campaign.sharper, attack.run(few), nonnegative=positive)
                found.append((one.label, one.feature))
            out.append(
                {
                    "method": "averaging",
                    "precision": precision,
                    "responses_before": responses,
                    "responses_after": after + 1,
                }
                | tally(case, rows, found)
            )
    return out


def zooming(case, rows, precision):
    out = []
    for rounds in (1, 2, 3):
        server = Federation.bare(case, precision).server
        attack = Attack(server.as_target("attacker"))
        try:
            guess = gram_guess(case.own[0], len(case.features))
            state = conditioned(attack, guess, rounds=rounds, scale=30.0 if precision == "float16" else 1e3)
            before = zoom(attack, state, responses=8)
        except (ExhumeError, np.linalg.LinAlgError) as error:
            out.append({"method": "zoom", "precision": precision, "rounds": rounds, "labels": 0, "reason": str(error)})
            continue
        spent = attack.cost.responses
        for after in (1, 2, 6):
            found = []
            for row in rows:
                later = attack.facing(after_deletion(case, server.ledger, row, precision).as_target("attacker"))
                now = zoom(later, state, start=before.G, responses=after)
                sample = recover.zoomed(before.state, now.state)
                found.append((sample.label, sample.feature))
            out.append(
                {"method": "zoom", "precision": precision, "responses_before": spent, "responses_after": after + 2}
                | tally(case, rows, found)
            )
    return out


def show(rows, options):
    for r in rows:
        line = f"  {r['probe']:9s} {r['precision']:9s} split {r['split']}"
        for method in options.methods:
            s = r[method]
            error = "-" if s["median_feature_error"] is None else f"{s['median_feature_error']:.1e}"
            line += f" | {method} {s['labels']:4d}/{r['deletions']} labels, feature error {error}"
            if method == "rank-one":
                line += f", sure of {s['known']}, wrongly {s['known_and_wrong']}"
        print(line)
    for method in options.methods:
        for probe in options.probes:
            for precision in options.precision:
                cell = [r for r in rows if (r["probe"], r["precision"]) == (probe, precision)]
                if len(cell) > 1:
                    labels = sum(r[method]["labels"] for r in cell)
                    print(
                        f"  all splits, {probe}, {precision}, {method}: {labels} of {sum(r['deletions'] for r in cell)}"
                    )


def show_curve(rows):
    for r in rows:
        if "responses_after" not in r:
            print(f"  {r['precision']:9s} {r['method']:9s} failed: {r.get('reason', 'no state')}")
            continue
        error = "-" if r["median_feature_error"] is None else f"{r['median_feature_error']:.1e}"
        print(
            f"  {r['precision']:9s} {r['method']:9s} {r['responses_before']:4d} responses before, "
            f"{r['responses_after']:3d} after: {r['labels']:3d}/{r['deletions']} labels, feature error {error}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--encoder", default="random-relu")
    parser.add_argument("--dim", type=int, default=None)
    parser.add_argument("--clients", type=int, default=None, help="default: 50, or 3 for digits")
    parser.add_argument("--alpha", type=float, default=None, help="default: 0.05, or 1 for digits")
    parser.add_argument("--deletions", type=int, default=100)
    parser.add_argument("--splits", type=int, nargs="+", default=[0])
    parser.add_argument("--probes", nargs="+", default=["designed", "own-data"])
    parser.add_argument("--precision", nargs="+", default=None)
    parser.add_argument("--methods", nargs="+", default=["difference", "rank-one"])
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    small = options.data == "digits"
    options.clients = options.clients or (3 if small else 50)
    options.alpha = options.alpha or (1.0 if small else 0.05)
    options.dim = options.dim or (256 if small else None)
    features = load_features(options.data, options.encoder, dim=options.dim)
    if options.curve:
        precision = options.precision or ["16bits", "float16", "bfloat16"]
        work = [delayed(curve_cell)(options, features, s, h) for s in options.splits for h in precision]
    else:
        options.precision = options.precision or ["float64", "float32", "bfloat16"]
        work = [
            delayed(run_cell)(options, features, s, p, h)
            for s in options.splits
            for p in options.probes
            for h in options.precision
        ]
    rows = Parallel(n_jobs=options.jobs)(work)
    if options.json:
        print(json.dumps(rows))
        return
    print(
        f"{options.data}, {options.encoder}, d = {features.dim}, {len(features.train_labels)} rows, "
        f"{options.clients} clients"
    )
    if options.curve:
        show_curve([row for part in rows for row in part])
    else:
        show(rows, options)


if __name__ == "__main__":
    main()
