"""Leak against cost of posterior-shaped noise: label recovery by an attacker who knows the state and averages.

The attacker knows ``A`` exactly, whitens, and averages n releases with fresh noise before the deletion of one record
and n after it. A mean of n independent draws is distributed as one draw at ``sigma / sqrt(n)``, which is what is
simulated: both sides get real noise with the covariance of their own state. Four readers look at the whitened change.

``column`` takes the column with the largest norm (Proposition 3 after whitening).

``svd`` takes the leading singular pair and fits the label to it, as `exhume.attack.recover.rank_one` does.

``informed`` takes the nearest of the mean changes per class, learnt from a fifth of the training rows.

``knows f`` already has the feature of the deleted record and asks only for its label.

Deleted records are drawn with the same number from each class, so chance is 1/c. Accuracy lost is the mean over draws.
What a whole history tells is in `noise_frontier.py`.

    python benchmarks/posterior_frontier.py [--data digits mnist cifar10] [--sigmas 0.1 0.2] [--trials 500]

MNIST and CIFAR-10 need ResNet-18 features (EXHUME_DATA_PATH, or `exhume data features`).
"""

import argparse
import json

import numpy as np
from scipy.linalg import cholesky, solve_triangular, svd
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

import noise_frontier
from exhume.attack.recover.fit import fit_scale

RELEASES = (1, 10, 100)
SIGMAS = (0.05, 0.1, 0.2, 0.3, 0.5)
READERS = ("column", "svd", "informed", "knows f")


class Problem(noise_frontier.Problem):
    """The same ledger, with the noise of single heads."""

    def __init__(self, name, trials):
        super().__init__(name, trials)
        self.means = self.class_means(self.own)

    def class_means(self, own):
        """Return, per class, the mean of the whitened changes that deletions of the attacker's own rows would make."""
        white = solve_triangular(self.L, self.F[own].T, lower=True).T
        residual = np.eye(self.c)[self.y[own]] - self.F[own] @ self.W
        chosen = [self.y[own] == k for k in range(self.c)]
        return [white[rows].T @ residual[rows] / max(rows.sum(), 1) for rows in chosen]

    def draw(self, L, sigma):
        return self.back(L, sigma * self.rng.standard_normal(self.W.shape))

    def after(self, row):
        """Return the factor and head after the deletion of one row."""
        f = self.F[row]
        L = cholesky(self.A - np.outer(f, f), lower=True)
        G = self.G.copy()
        G[:, self.y[row]] -= f
        return L, self.back(L, solve_triangular(L, G, lower=True))


def read(problem, row, pre, post):
    """Return each reader's label for one deletion."""
    Y = problem.L.T @ (pre - post)
    f = problem.F[row]
    white = solve_triangular(problem.L, f, lower=True)
    return {
        "column": int(np.linalg.norm(Y, axis=0).argmax()),
        "svd": leading(problem, Y, post),
        "informed": informed(problem, Y),
        # (L^-1 f)' Y = f' A^-1 f (e_k - W_post' f)': put the scores back and the one-hot vector stands out.
        "knows f": int((white @ Y + (white @ white) * (post.T @ f)).argmax()),
    }


def leading(problem, Y, post):
    """What `rank_one` does for non-negative features, with the factor of the known state at hand."""
    left, values, right = svd(Y, full_matrices=False)
    direction = problem.L @ left[:, 0]
    length = np.linalg.norm(direction)
    u, r = direction / length, values[0] * right[0] * length
    if u.sum() < 0:
        u, r = -u, -r
    t, misfit = fit_scale(r, post.T @ u)
    return int(np.argmin(np.where(t > 0, misfit, np.inf) if (t > 0).any() else misfit))


def informed(problem, Y):
    """The nearest mean: with noise far above one record's signal, the best test is linear in it."""
    return int(np.argmax([np.vdot(Y, mean) - 0.5 * np.vdot(mean, mean) for mean in problem.means]))


def leak(problem, sigmas):
    """Return the shift of every deletion, and per averaged noise the share of right labels of each reader."""
    hits = {sigma: dict.fromkeys(READERS, 0) for sigma in sigmas}
    shifts = []
    for row in problem.deleted:
        L, W = problem.after(row)
        shifts.append(np.linalg.norm(problem.L.T @ (problem.W - W)))
        for sigma in sigmas:
            pre, post = problem.W + problem.draw(problem.L, sigma), W + problem.draw(L, sigma)
            for reader, label in read(problem, row, pre, post).items():
                hits[sigma][reader] += int(label == problem.y[row])
    total = len(problem.deleted)
    return np.array(shifts), {s: {r: n / total for r, n in found.items()} for s, found in hits.items()}


def points_lost(problem, sigma, draws=40):
    return problem.exact - np.mean([problem.right(problem.W + problem.draw(problem.L, sigma)) for _ in range(draws)])


def effective(sigma, n):
    return round(float(sigma / np.sqrt(n)), 12)


def frontier(problem, sigmas):
    """Return leak and cost of posterior noise, averaged, at some sigmas."""
    shifts, found = leak(problem, sorted({effective(sigma, n) for sigma in sigmas for n in RELEASES}))
    rows = []
    for sigma in sigmas:
        lost = float(points_lost(problem, sigma))
        for n in RELEASES:
            mu = float(np.median(shifts)) / sigma * np.sqrt(n / 2)
            rows.append(
                {
                    "sigma": sigma,
                    "releases_each_side": n,
                    "labels": found[effective(sigma, n)],
                    "accuracy_lost_points": lost,
                    "median_mu": mu,
                    "median_best_advantage": float(2 * ndtr(mu / 2) - 1),
                }
            )
    quantiles = dict(zip(("median", "p95", "max"), np.quantile(shifts, [0.5, 0.95, 1.0]).tolist(), strict=True))
    return {"shift": quantiles, "cells": rows}


def results(name, options):
    problem = Problem(name, options.trials)
    size = {"d": problem.d, "rows": len(problem.F), "classes": problem.c, "trials": len(problem.deleted)}
    return {"data": name, **size, "accuracy": problem.exact, **frontier(problem, options.sigmas)}


def show(result):
    print(f"{result['data']}: d = {result['d']}, {result['rows']} rows, accuracy {result['accuracy']:.2f}%")
    shift = result["shift"]
    print(f"  shift of one deletion: median {shift['median']:.3g}, 95% {shift['p95']:.3g}, largest {shift['max']:.3g}")
    error = 100 * np.sqrt(1 / result["classes"] / result["trials"])
    print(f"  labels read, % of {result['trials']} (chance {100 / result['classes']:.0f}, standard error {error:.1f})")
    print(f"  {'sigma':>6} {'n a side':>8} " + " ".join(f"{r:>9}" for r in READERS) + "   mu    advantage  points lost")
    for cell in result["cells"]:
        labels = " ".join(f"{100 * cell['labels'][r]:9.1f}" for r in READERS)
        print(
            f"  {cell['sigma']:6.2f} {cell['releases_each_side']:8d} {labels} {cell['median_mu']:6.2f} "
            f"{cell['median_best_advantage']:9.2f} {cell['accuracy_lost_points']:10.2f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["digits"])
    parser.add_argument("--sigmas", type=float, nargs="+", default=list(SIGMAS))
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    found = []
    with threadpool_limits(1):
        for name in options.data:
            found.append(results(name, options))
            if not options.json:
                show(found[-1])
    if options.json:
        print(json.dumps({"gamma": noise_frontier.GAMMA, "results": found}))


if __name__ == "__main__":
    main()
