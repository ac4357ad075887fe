"""The paper's neighbours as baselines: what each needs, and what it reads.

- inference: two heads and candidates; how often the deleted record is the first of 1,000 by its loss (Gao et al. 2022).
- passive: two heads and the attacker's own rows; labels of single deletions (Bertran et al. 2024; peers read from
  consecutive updates are the same without probes: Wilson, Yue).
- message: the server that sees single messages; rows told apart from the sums of b rows of one client (Zhou et al.).
- retaliation: a deleted client put back under wrong labels; accuracy on its records (Sheng et al. 2026).

    python benchmarks/neighbours.py
    python benchmarks/neighbours.py --data mnist --encoder resnet18
"""

import argparse
import json

import numpy as np
from threadpoolctl import threadpool_limits

from exhume.attack import recover
from exhume.attack.block import Block
from exhume.attack.recover.inference import loss_rise
from exhume.attack.recover.message import read_message
from exhume.attack.session import Attack
from exhume.attack.strategies.retaliate import retaliate
from exhume.data import dirichlet, load_features, select_attacker
from exhume.numerics import relative
from exhume.protocol import Head, Update
from exhume.simulate.federation import Federation
from exhume.simulate.scenario import Scenario

GAMMA = 1e-3


def single(case, options):
    """Inference and passive reading on the same deletions."""
    rng = np.random.default_rng(0)
    A, G = case.total.gram + case.gamma * np.eye(case.d), case.total.moment
    before = Head(np.linalg.solve(A, G))
    rows = rng.choice(case.others, options.deletions, replace=False)
    first = labels = 0
    for row in rows:
        gone = case.summary(np.array([row]))
        after = Head(np.linalg.solve(A - gone.gram, G - gone.moment))
        lot = np.append(rng.choice(np.setdiff1d(case.others, [row]), 999, replace=False), row)
        first += int(loss_rise(before, after, case.features[lot], case.labels[lot]).argmax() == 999)
        found = recover.passive(
            before, after, features=case.own[0], rows=sum(map(len, case.parts)), nonnegative=case.nonnegative
        )
        labels += int(found.label == case.labels[row])
    return {"deletions": len(rows), "inference_first_of_1000": first, "passive_labels": labels}


def messages(case, options):
    """Rows read from messages of b rows of one client."""
    rng = np.random.default_rng(1)
    out = []
    for b in (1, 2, 4, 8, 16):
        read = total = 0
        for _ in range(options.groups):
            k = rng.choice([k for k in case.honest if len(case.parts[k]) >= b])
            rows = rng.choice(case.parts[k], b, replace=False)
            _, samples = read_message(case.summary(rows), nonnegative=case.nonnegative)
            F = case.features[rows]
            read += sum(min(relative(s.feature - f, f) for f in F) < 0.01 for s in samples)
            total += b
        out.append({"rows_a_message": b, "read": read, "of": total})
    return out


def retaliation(case):
    """Accuracy on a deleted client's records before, after the deletion, and after it came back under wrong labels."""
    out = []
    for k in case.honest[:10]:
        rows = case.parts[k]
        server = Federation.bare(case).server
        attack = Attack(server.as_target("attacker"))
        heads = [server.head()]
        gone = case.summary(rows)
        server.submit(Update.deleting(gone), "honest")
        heads.append(server.head())
        heads.append(retaliate(attack, Block(gone.gram, gone.moment)))
        out.append([head.accuracy(case.features[rows], case.labels[rows]) for head in heads])
    before, after, worse = np.mean(out, axis=0)
    return {"clients": len(out), "before": float(before), "deleted": float(after), "retaliated": float(worse)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--encoder", default="random-relu")
    parser.add_argument("--dim", type=int, default=None)
    parser.add_argument("--deletions", type=int, default=100)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    small = options.data == "digits"
    features = load_features(options.data, options.encoder, dim=options.dim or (128 if small else None))
    parts = dirichlet(features.train_labels, 5 if small else 50, 1.0 if small else 0.05, 0)
    attacker = select_attacker(features.train_features, parts)
    case = Scenario(features.train_features, features.train_labels, features.classes, parts, attacker, GAMMA)
    with threadpool_limits(1):
        found = {"single": single(case, options), "messages": messages(case, options), "retaliation": retaliation(case)}
    print(json.dumps(found) if options.json else "\n".join(f"{k}: {v}" for k, v in found.items()))


if __name__ == "__main__":
    main()
