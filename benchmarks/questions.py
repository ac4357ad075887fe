"""Questions that a prediction service must answer until an attacker reads a deleted record's label, by kind of answer.

For each kind of answer: identify the state by probes whose heads are read off by questions, then read deletions of one
record each by one more head. Small sizes, because labels alone cost about ``50 d (c - 1)`` questions a head; of MNIST
and CIFAR-10 ``--dim`` takes the first so many features.

    python benchmarks/questions.py
    python benchmarks/questions.py --data mnist --encoder resnet18 --classes 10 --dim 512 --answers scores top-k
    python benchmarks/questions.py --data mnist --encoder resnet18 --classes 10 --dim 32
"""

import argparse
import json

import numpy as np
from threadpoolctl import threadpool_limits

from exhume.attack import probes, recover
from exhume.attack.estimate import direct
from exhume.attack.estimate.scaled import scaled
from exhume.attack.predictions import ANSWERS, PredictionService, PredictionTarget, read_head
from exhume.attack.probes.base import moment_update
from exhume.attack.recover.scaled import up_to_scale
from exhume.attack.session import Attack
from exhume.data import dirichlet, load_features, select_attacker
from exhume.errors import NotIdentifiedError
from exhume.numerics import relative
from exhume.protocol import Update
from exhume.simulate.federation import Federation
from exhume.simulate.scenario import Scenario


def played(case, answers, options):
    """Identify through questions, then read every deletion through questions."""
    d, c, rng = case.d, case.classes, np.random.default_rng(0)
    federation = Federation.bare(case)
    target = federation.target()
    service = PredictionService(target, answers, k=options.k)
    H = np.linalg.inv(federation.A)
    if answers == "labels":
        totals = probes.designed(d, c, scale=options.scale, spare=1).totals
        heads, standing = [read_head(service, d, c, rng=rng)], np.zeros((d, c))
        for total in totals:
            target.submit(moment_update(total - standing))
            standing = total
            heads.append(read_head(service, d, c, rng=rng))
        target.submit(moment_update(-standing))
        try:
            state = scaled(heads[0], heads[1:], totals)
        except NotIdentifiedError as failure:
            return {"answers": answers, "d": d, "c": c, "questions_before": service.asked, "failed": failure.reason}
        error = relative(state.H / np.linalg.norm(state.H) - H / np.linalg.norm(H), H / np.linalg.norm(H))
    else:
        attack = Attack(PredictionTarget(service, target, d, c, rng=rng))
        state = attack.identify(probes.designed(d, c, scale=options.scale), estimate=direct)
        error = relative(state.H - H, H)
    before, right = service.asked, 0
    rows = np.random.default_rng(1).choice(case.others, options.deletions, replace=False)
    for row in rows:
        twin = federation.fork()
        twin.server.submit(Update.deleting(case.summary(np.array([row]))), "honest")
        asked = PredictionService(twin.target(), answers, k=options.k)
        head = read_head(asked, d, c, rng=rng)
        if answers == "labels":
            found = up_to_scale(state, head)
        else:
            found = recover.rank_one(state, type(state.baseline)(head), nonnegative=case.nonnegative)
        right += int(found.label == case.labels[row])
    return {
        "answers": answers,
        "d": d,
        "c": c,
        "questions_before": before,
        "questions_a_deletion": asked.asked,
        "H_error": error,
        "labels": right,
        "deletions": len(rows),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--encoder", default="random-relu")
    parser.add_argument("--answers", nargs="+", default=list(ANSWERS), choices=ANSWERS)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--classes", type=int, default=6)
    parser.add_argument("--deletions", type=int, default=20)
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    small = options.data == "digits"
    features = load_features(options.data, options.encoder, dim=options.dim if small else None)
    kept = features.train_labels < options.classes
    F, y = np.ascontiguousarray(features.train_features[kept][:, : options.dim]), features.train_labels[kept]
    parts = dirichlet(y, *((3, 1.0) if small else (50, 0.05)), 0)
    case = Scenario(F, y, options.classes, parts, select_attacker(F, parts), 1e-3)
    with threadpool_limits(1):
        for answers in options.answers:
            row = played(case, answers, options)
            print(json.dumps(row) if options.json else row, flush=True)


if __name__ == "__main__":
    main()
