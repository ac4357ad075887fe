"""What explains the paper's numbers where ours differ: the solver, the features, the draws? Each part varies one thing.

- random: error of A from random probes at the lower bound of answers (table ``rank_threshold``), X inverted by QR, as
  here, by an SVD (``pinv``) and by LAPACK's least squares.
- own: error of a state from attacker data (104 answers at d = 512), mean over the splits, and its ratio to ours, with
  another solver of the attacker, another solver or library of the server (PyTorch, where installed, brings MKL), heads
  refined in extended precision, Z from rows, features with random low bits, and other batch permutations (which the
  paper does not state); float64 and float32.
- residuals: error of A and relative residuals e_AR and e_HQ of the designed probe by the same solvers, three scales.
- redraws: labels from designed float32 probes for other draws of the deleted records.
- honest: the 99th percentile of an honest deletion's head change, over all rows and over draws of 1,000.

    python benchmarks/solvers.py
    python benchmarks/solvers.py --data mnist --encoder resnet18 --parts own
"""

import argparse
import json
import math

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import threadpool_limits

from exhume.attack import probes
from exhume.attack.session import Attack
from exhume.data import dirichlet, load_features, select_attacker
from exhume.numerics import relative, symmetric
from exhume.simulate.federation import Federation
from exhume.simulate.scenario import Scenario
from exhume.simulate.trial import Campaign

GAMMA = 1e-3


def by_qr(X, Z):
    q, r = np.linalg.qr(X.T)
    return np.linalg.solve(r, q.T @ Z.T).T


ATTACKERS = {
    "QR": by_qr,
    "SVD": lambda X, Z: Z @ np.linalg.pinv(X),
    "least squares": lambda X, Z: np.linalg.lstsq(X.T, Z.T, rcond=None)[0].T,
}


def refined(A, G):
    """Solve by Cholesky, then once more for what is left in extended precision: correct to the last bits."""
    factor = cho_factor(A, lower=True)
    W = cho_solve(factor, G)
    left = G.astype(np.longdouble) - A.astype(np.longdouble) @ W.astype(np.longdouble)
    return W + cho_solve(factor, left.astype(np.float64))


SERVERS = {
    "Cholesky": lambda A, G: cho_solve(cho_factor(A, lower=True), G),
    "LU": np.linalg.solve,
    "explicit inverse": lambda A, G: np.linalg.inv(A) @ G,
    "refined heads": refined,
}


try:
    import torch
except ImportError:  # the extra `decode` brings it; its LAPACK is MKL where NumPy's and SciPy's is OpenBLAS
    pass
else:
    torch.set_num_threads(1)
    SERVERS["LU, PyTorch"] = lambda A, G: torch.linalg.solve(*map(torch.from_numpy, (A, G))).numpy()
    SERVERS["Cholesky, PyTorch"] = lambda A, G: torch.cholesky_solve(
        torch.from_numpy(G), torch.linalg.cholesky(torch.from_numpy(A))
    ).numpy()


def scenario(options, features, split):
    parts = dirichlet(features.train_labels, options.clients, options.alpha, split)
    attacker = select_attacker(features.train_features, parts)
    return Scenario(features.train_features, features.train_labels, features.classes, parts, attacker, GAMMA)


def summary(values):
    x = np.array(values)
    return {"mean": float(x.mean()), "sd": float(x.std()), "each": x.tolist()}


def random(options, features):
    case = scenario(options, features, 0)
    m, found = math.ceil(case.d / case.classes), {name: [] for name in ATTACKERS}
    for sequence in range(options.sequences):
        federation = Federation.bare(case)
        rng = np.random.default_rng(sequence)
        probe = probes.random(case.d, case.classes, rng=rng, responses=m, scale=1e4, mode="cumulative")
        run = Attack(federation.target()).run(probe)
        for name, solve in ATTACKERS.items():
            found[name].append(relative(symmetric(solve(run.X, run.Z)) - federation.A, federation.A))
    return {name: summary(errors) for name, errors in found.items()}


class Own:
    """One attacker-data run against totals in memory, with everything that may vary."""

    def __init__(self, case, split, low_bits=False):
        rows = case.features
        if low_bits:  # the stored features have 11 significant bits; these have 24
            noise = np.random.default_rng(split).uniform(-1, 1, rows.shape)
            rows = (rows * (1 + 2.0**-12 * noise)).astype(np.float32).astype(np.float64)
        own, self.split = case.parts[case.attacker], split
        one_hot = np.eye(case.classes)[case.labels]
        self.A, self.G = rows.T @ rows + GAMMA * np.eye(case.d), rows.T @ one_hot
        self.F, self.Y = rows[own], one_hot[own]
        self.m = min(2 * math.ceil(case.d / case.classes), len(own))

    def error(self, server="Cholesky", attacker="QR", draw=0, heads="float64", by_rows=False):
        """Return the relative errors of the state's A and G; draw 0 is the permutation of the tables."""
        rng = np.random.default_rng(self.split if draw == 0 else [self.split, draw])
        batches = np.array_split(rng.permutation(len(self.F)), self.m)
        solve, P, Q, W, Z = SERVERS[server], 0, 0, [], []

        def head(A, G):
            return solve(A, G).astype(heads).astype(np.float64)

        W0 = head(self.A, self.G)
        for j, rows in enumerate(batches):
            P, Q = P + self.F[rows].T @ self.F[rows], Q + self.F[rows].T @ self.Y[rows]
            W.append(head(self.A + P, self.G + Q))
            sent = np.concatenate(batches[: j + 1])
            Z.append(self.F[sent].T @ (self.Y[sent] - self.F[sent] @ W[-1]) if by_rows else Q - P @ W[-1])
        A = symmetric(ATTACKERS[attacker](np.hstack(W) - np.tile(W0, len(W)), np.hstack(Z)))
        return relative(A - self.A, self.A), relative(A @ W0 - self.G, self.G)


def own(options, features):
    variants = {
        "as here": {},
        **{f"attacker: {name}": {"attacker": name} for name in list(ATTACKERS)[1:]},
        **{f"server: {name}": {"server": name} for name in list(SERVERS)[1:]},
        "Z from rows": {"by_rows": True},
        "low bits": {},
        **{f"permutation {k}": {"draw": k} for k in range(1, options.draws)},
        **{
            f"permutation {k}, server: {name}": {"draw": k, "server": name}
            for k in range(1, options.draws)
            for name in SERVERS
            if name not in ("Cholesky", "explicit inverse", "refined heads")
        },
        "float32": {"heads": "float32"},
        "float32, attacker: SVD": {"heads": "float32", "attacker": "SVD"},
        **{f"float32, permutation {k}": {"heads": "float32", "draw": k} for k in range(1, options.draws)},
    }
    errors = {name: [] for name in variants}
    for split in options.splits:
        case = scenario(options, features, split)
        plain, fine = Own(case, split), Own(case, split, low_bits=True)
        for name, how in variants.items():
            errors[name].append((fine if name == "low bits" else plain).error(**how))
    means = {name: np.mean(found, axis=0) for name, found in errors.items()}
    return {
        name: {
            "A": float(mean[0]),
            "G": float(mean[1]),
            "ratio_A": float(mean[0] / means[base][0]),
            "ratio_G": float(mean[1] / means[base][1]),
        }
        for name, mean in means.items()
        for base in ["float32" if name.startswith("float32") else "as here"]
    }


def residuals(options, features):
    case = scenario(options, features, 0)
    federation, found = Federation.bare(case), {}
    for scale in (1e4, 1e6, 1e8):
        run = Attack(federation.target()).run(probes.designed(case.d, case.classes, scale=scale))
        for name, solve in ATTACKERS.items():
            A, H = solve(run.X, run.Z), solve(run.Z, run.X)
            found[f"{name}, scale {scale:.0e}"] = {
                "A": relative(symmetric(A) - federation.A, federation.A),
                "e_AR": relative(A @ run.X - run.Z, run.Z),
                "e_HQ": relative(H @ run.Z - run.X, run.X),
            }
    return found


def redraws(options, features):
    case = scenario(options, features, 0)
    live = Campaign(Federation.bare(case, "float32"), probes.designed(case.d, case.classes), project=False)
    found = {}
    for seed in range(7, 7 + options.redraws):  # 7 is the draw of the tables
        rows = np.random.default_rng(seed).choice(len(case.features), options.deletions, replace=False)
        trials = [live.trial(rows[i : i + 1], ["difference"]) for i in range(len(rows))]
        found[f"draw {seed}"] = sum(bool(r.label_correct) for t in trials for r in t.recoveries)
    return {"labels of": options.deletions, **found}


def honest(options, features):
    case = scenario(options, features, 0)
    ledger = Federation.bare(case).server.ledger
    F = case.features
    moved = ledger.solve(F.T).T
    missed = np.eye(case.classes)[case.labels] - F @ ledger.head()
    sizes = np.linalg.norm(moved, axis=1) * np.linalg.norm(missed, axis=1) / (1 - (F * moved).sum(axis=1))
    draws = [
        np.random.default_rng(s).choice(sizes, min(1000, len(F)), replace=False) for s in range(options.percentiles)
    ]
    of_draws = [float(np.percentile(draw, 99)) for draw in draws]
    return {"all rows": float(np.percentile(sizes, 99)), "of 1,000": {"low": min(of_draws), "high": max(of_draws)}}


PARTS = {"random": random, "own": own, "residuals": residuals, "redraws": redraws, "honest": honest}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--encoder", default="random-relu")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--splits", type=int, nargs="+", default=None, help="default: 0 to 4, or 0 for digits")
    parser.add_argument("--sequences", type=int, default=5)
    parser.add_argument("--draws", type=int, default=5, help="batch permutations, that of the tables among them")
    parser.add_argument("--redraws", type=int, default=10, help="draws of deleted records, that of the tables first")
    parser.add_argument("--deletions", type=int, default=100)
    parser.add_argument("--percentiles", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    small = options.data == "digits"
    options.clients, options.alpha = (5, 1.0) if small else (50, 0.05)
    options.splits = options.splits or ([0] if small else [0, 1, 2, 3, 4])
    features = load_features(options.data, options.encoder, dim=128 if small else None)
    with threadpool_limits(1):
        for part in options.parts:
            found = PARTS[part](options, features)
            if options.json:
                print(json.dumps({part: found}), flush=True)
            else:
                print(part, *(f"  {name}: {value}" for name, value in found.items()), sep="\n", flush=True)


if __name__ == "__main__":
    main()
