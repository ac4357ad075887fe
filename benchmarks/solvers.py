"""Does the solver explain the paper's errors? The same probe sequences solved by QR, as here, and by SVD.

Random probes with as many responses as the bound (52 at d = 512), sequences 0 to 4, as table ``rank_threshold``:
relative error of A by `estimate.direct` (QR) and by ``Z pinv(X)`` (SVD), symmetrised alike.

    python benchmarks/solvers.py
    python benchmarks/solvers.py --data mnist --encoder resnet18
"""

import argparse
import json
import math

import numpy as np
from threadpoolctl import threadpool_limits

from exhume.attack import probes
from exhume.attack.estimate import direct
from exhume.attack.session import Attack
from exhume.data import dirichlet, load_features, select_attacker
from exhume.numerics import relative, symmetric
from exhume.simulate.federation import Federation
from exhume.simulate.scenario import Scenario


def errors(case, sequence):
    federation = Federation.bare(case)
    A, m = federation.A, math.ceil(case.d / case.classes)
    probe = probes.random(
        case.d, case.classes, rng=np.random.default_rng(sequence), responses=m, scale=1e4, mode="cumulative"
    )
    transcript = Attack(federation.target()).run(probe)
    by_svd = symmetric(transcript.Z @ np.linalg.pinv(transcript.X))
    return relative(direct(transcript).A - A, A), relative(by_svd - A, A)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--encoder", default="random-relu")
    parser.add_argument("--sequences", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    small = options.data == "digits"
    features = load_features(options.data, options.encoder, dim=128 if small else None)
    parts = dirichlet(features.train_labels, 5 if small else 50, 1.0 if small else 0.05, 0)
    attacker = select_attacker(features.train_features, parts)
    case = Scenario(features.train_features, features.train_labels, features.classes, parts, attacker, 1e-3)
    with threadpool_limits(1):
        found = np.array([errors(case, sequence) for sequence in range(options.sequences)])
    out = {
        name: {"mean": float(x.mean()), "sd": float(x.std()), "each": x.tolist()}
        for name, x in zip(("QR", "SVD"), found.T, strict=True)
    }
    print(json.dumps(out) if options.json else "\n".join(f"{k}: {v}" for k, v in out.items()))


if __name__ == "__main__":
    main()
