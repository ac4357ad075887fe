"""Leak against cost of posterior-shaped noise: label recovery by an attacker who knows the state and averages.

The attacker knows ``A`` exactly, whitens, and averages n releases with fresh noise before the deletion of one record
and n after it. A mean of n independent draws is distributed as one draw at ``sigma / sqrt(n)``, which is what is
simulated: both sides get real noise with the covariance of their own state. Four readers look at the whitened change.

``column`` takes the column with the largest norm (Proposition 3 after whitening).

``svd`` takes the leading singular pair and fits the label to it, as `exhume.attack.recover.rank_one` does.

``informed`` takes the nearest of the mean changes per class, learnt from a fifth of the training rows.

``knows f`` already has the feature of the deleted record and asks only for its label.

The second table is what an operator can choose between, each at the same lifetime mu of a median record, over a history
of `--events` events: the noise of `exhume.hardened` (continual noise in a public measure); AdaSSP (Wang 2018), which is
the same mechanism with noise in the shape of a ball, scaled to the longest feature, and the ridge that it asks for;
output perturbation, which draws noise on every head, scaled to what a median record moves in it; and the deletion
mask, which keeps no account over time. The attacker is told every noisy total of the whole history and everything else
that happened in it. What is left is the deletion behind one draw of known size, which is what is simulated for each
record (`tests/defence/test_release_continual.py` holds the server to it). It reads by Bayes' rule over a fifth of the
training rows, or by the leading direction where that stands out (`exhume.attack.recover.informed`), or knows the
feature. The cost is measured on the real server over the whole history, additions and deletions in turn.

Deleted records are drawn with the same number from each class, so chance is 1/c. Accuracy lost is the mean over draws.

    python benchmarks/noise_frontier.py [--data digits mnist cifar10] [--sigmas 0.1 0.2] [--choices 0.2] [--trials 500]

MNIST and CIFAR-10 need ResNet-18 features (EXHUME_DATA_PATH, or `exhume data features`).
"""

import argparse
import json

import numpy as np
from scipy.linalg import cholesky, solve_triangular, svd
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from exhume.attack.recover.fit import fit_scale
from exhume.attack.recover.informed import Candidates, read_change
from exhume.data import load_features
from exhume.defence import sigma_for
from exhume.defence.default import CAP, before_gram
from exhume.defence.release import ContinualNoise, DeletionMask
from exhume.defence.release._factorisation import Factorisation
from exhume.protocol import Ledger, Server, Summary, Update

GAMMA = 1e-3
RELEASES = (1, 10, 100)
SIGMAS = (0.05, 0.1, 0.2, 0.3, 0.5)
READERS = ("column", "svd", "informed", "knows f")


class Problem:
    """One ledger, the rows that are deleted in turn, and the attacker's own rows."""

    def __init__(self, name, trials, seed=0):
        encoder = {"dim": 256, "encoder": "random-relu"} if name == "digits" else {"encoder": "resnet18"}
        found = load_features(name, **encoder)
        self.F, self.y, self.c = found.train_features, found.train_labels, found.classes
        self.test = found.test_features, found.test_labels
        self.rng = np.random.default_rng(seed)
        self.G = self.F.T @ np.eye(self.c)[self.y]
        self.A = self.F.T @ self.F + GAMMA * np.eye(self.F.shape[1])
        self.L = cholesky(self.A, lower=True)
        self.W = self.back(self.L, solve_triangular(self.L, self.G, lower=True))
        order = self.rng.permutation(len(self.F))
        rest = order[len(order) // 5 :]
        per = max(trials // self.c, 1)
        self.deleted = np.concatenate([rest[self.y[rest] == k][:per] for k in range(self.c)])
        self.own = order[: len(order) // 5]
        self.means = self.class_means(self.own)

    def class_means(self, own):
        """Return, per class, the mean of the whitened changes that deletions of the attacker's own rows would make."""
        white = solve_triangular(self.L, self.F[own].T, lower=True).T
        residual = np.eye(self.c)[self.y[own]] - self.F[own] @ self.W
        chosen = [self.y[own] == k for k in range(self.c)]
        return [white[rows].T @ residual[rows] / max(rows.sum(), 1) for rows in chosen]

    @staticmethod
    def back(L, Z):
        """Return ``L^-T Z``."""
        return solve_triangular(L, Z, lower=True, trans="T")

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


def told_all(problem, s, tau, cap=None):
    """Return the share of right labels for an attacker told all but one draw of (s, tau) on a deletion."""
    own = Candidates(problem.A, problem.W, problem.F[problem.own], problem.y[problem.own], problem.c)
    hits, mus, d = {"informed": 0, "knows f": 0}, [], len(problem.A)
    for row in problem.deleted:
        f, rng = problem.F[row], problem.rng
        white = solve_triangular(problem.L, f, lower=True)
        residual = np.eye(problem.c)[problem.y[row]] - f @ problem.W
        leverage = white @ white
        mu = float(np.hypot(leverage / (np.sqrt(2) * tau), np.sqrt(leverage) * np.linalg.norm(residual) / s))
        share = 1.0 if cap is None else min(1.0, cap / mu)
        mus.append(share * mu)
        N = rng.standard_normal((d, d))
        gram = share * np.outer(white, white) + tau * (N + N.T) / np.sqrt(2)
        Y = share * np.outer(white, residual) + s * rng.standard_normal((d, problem.c))
        change, gram = problem.L @ Y, problem.L @ gram @ problem.L.T
        hits["informed"] += read_change(own, change, s, gram, tau).label == problem.y[row]
        hits["knows f"] += int((white @ Y + leverage * (problem.W.T @ f)).argmax()) == problem.y[row]
    total = len(problem.deleted)
    return {name: hit / total for name, hit in hits.items()}, float(np.median(mus))


def points_lost(problem, head):
    """Return by how many points a head is worse on the test rows than the exact one."""
    features, labels = problem.test
    right = [((features @ weights).argmax(axis=1) == labels).mean() for weights in (problem.W, head)]
    return 100 * (right[0] - right[1])


def history_cost(problem, rule, events, every=25):
    """Return the mean points that the heads of a whole history lose: rows go and come back, one at a time."""
    server = Server(Ledger(Summary(problem.F.T @ problem.F, problem.G), GAMMA), release=rule)
    features, labels = problem.test
    lost, gone = [], list(problem.rng.permutation(len(problem.F))[: events // 2 + 1])
    for i in range(events):
        row = gone[i // 2]
        block = Summary.of(problem.F[[row]], problem.y[[row]], problem.c)
        server.submit(Update.adding(block) if i % 2 else Update.deleting(block), f"client {i % 12}")
        if i % every == every - 1:
            exact, shown = (features @ head for head in (server.ledger.head(), server.head().weights))
            lost.append(100 * ((exact.argmax(axis=1) == labels).mean() - (shown.argmax(axis=1) == labels).mean()))
    return float(np.mean(lost)), float(np.mean(lost[-max(len(lost) // 5, 1) :]))


def continual(problem, sigma, events):
    rule = ContinualNoise(before_gram(sigma), horizon=events + 1, cap=CAP, key=b"0" * 32)
    k, (s, tau) = Factorisation.of(events + 1).sensitivity, rule.event_noise(len(problem.A))
    labels, mu = told_all(problem, s / k, tau / k, CAP)
    lost, late = history_cost(problem, rule, events)
    return {"name": "continual", "sigma": sigma, "labels": labels, "median_mu": mu, "lost": lost, "lost_late": late}


def deletion_mask(problem, sigma, events):
    """The mask that a deletion is behind when it happens; what later events tell is in no account."""
    rule = DeletionMask(before_gram(sigma), key=b"0" * 32)
    labels, mu = told_all(problem, *rule.deletion_noise(len(problem.A)))
    lost, late = history_cost(problem, rule, events)
    return {"name": "mask, at once", "sigma": sigma, "labels": labels, "median_mu": mu, "lost": lost, "lost_late": late}


def median_row(problem):
    """Return the lengths, moved heads and residuals of deleted records, as medians."""
    lengths = np.linalg.norm(problem.F[problem.deleted], axis=1)
    moved = [np.linalg.norm(problem.W - problem.after(row)[1]) for row in problem.deleted[:50]]
    return float(np.median(lengths)), float(np.median(moved)), float(np.linalg.norm(problem.F, axis=1).max())


def adassp(problem, mu, events, draws=10):
    """AdaSSP at the same lifetime mu of a median record: half of mu squared for the gram, half for the moment."""
    f, (length, _, _) = Factorisation.of(events + 1), median_row(problem)
    d = len(problem.A)
    tau, s = f.sensitivity * length**2 / mu, f.sensitivity * length * np.sqrt(2) / mu
    lost = []
    for _ in range(draws):
        N = problem.rng.standard_normal((d, d))
        gram = problem.A + f.largest * tau * (N + N.T) / np.sqrt(2)
        moment = problem.G + f.largest * s * problem.rng.standard_normal(problem.G.shape)
        least = float(np.linalg.eigvalsh(gram)[0])
        ridge = max(0.0, 2.0 * np.sqrt(d) * f.largest * tau - max(least, 0.0))  # the spectrum of the noise
        lost.append(points_lost(problem, np.linalg.solve(gram + ridge * np.eye(d), moment)))
    return {"name": "AdaSSP", "median_mu": mu, "lost": float(np.mean(lost))}


def output_noise(problem, mu, events, draws=10):
    """Noise on every head at the same lifetime mu of a median record: the heads of a history compose."""
    moved = median_row(problem)[1]
    size = moved * np.sqrt(events) / mu
    heads = [problem.W + size * problem.rng.standard_normal(problem.W.shape) for _ in range(draws)]
    return {"name": "output", "median_mu": mu, "lost": float(np.mean([points_lost(problem, head) for head in heads]))}


def choices(problem, sigmas, events):
    """Return one row per choice and sigma: what a lifetime tells, and what it costs."""
    found = []
    for sigma in sigmas:
        ours = continual(problem, sigma, events)
        rivals = [rival(problem, ours["median_mu"], events) for rival in (adassp, output_noise)]
        found += [ours, *rivals, deletion_mask(problem, sigma, events)]
    return found


def accuracy(problem, sigma, draws=40):
    features, labels = problem.test
    heads = [problem.W + problem.draw(problem.L, sigma) for _ in range(draws if sigma else 1)]
    return float(np.mean([((features @ head).argmax(axis=1) == labels).mean() for head in heads]))


def effective(sigma, n):
    return round(float(sigma / np.sqrt(n)), 12)


def frontier(problem, sigmas):
    """Return leak and cost of posterior noise, averaged, at some sigmas."""
    shifts, found = leak(problem, sorted({effective(sigma, n) for sigma in sigmas for n in RELEASES}))
    exact, rows = accuracy(problem, 0.0), []
    for sigma in sigmas:
        lost = 100 * (exact - accuracy(problem, sigma))
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
    d, records = len(problem.A), len(problem.F)
    size = {"d": d, "rows": records, "classes": problem.c, "trials": len(problem.deleted), "events": options.events}
    made = {"data": name, **size, "accuracy": accuracy(problem, 0.0)}
    if not options.choices_only:
        made |= frontier(problem, options.sigmas)
    bearable = sigma_for(records, d)
    return made | {"choices": choices(problem, options.choices or [bearable], options.events)}


def show(result):
    print(f"{result['data']}: d = {result['d']}, {result['rows']} rows, accuracy {100 * result['accuracy']:.2f}%")
    if "cells" in result:
        show_posterior(result)
    error = 100 * np.sqrt(1 / result["classes"] / result["trials"])
    print(f"  {result['events']} events, all totals told; labels read, % of {result['trials']} (error {error:.1f})")
    print(f"  {'':>14} {'sigma':>6} {'mu':>6} {'informed':>9} {'knows f':>9}  points lost (in the last fifth)")
    for row in result["choices"]:
        sigma = f"{row['sigma']:6.3f}" if "sigma" in row else " " * 6
        labels = [f"{100 * row['labels'][r]:9.1f}" if "labels" in row else " " * 9 for r in ("informed", "knows f")]
        late = f" ({row['lost_late']:.2f})" if "lost_late" in row else ""
        print(f"  {row['name']:>14} {sigma} {row['median_mu']:6.2f} {' '.join(labels)} {row['lost']:8.2f}{late}")


def show_posterior(result):
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
    parser.add_argument("--events", type=int, default=1000, help="length of the history")
    parser.add_argument("--choices", type=float, nargs="+", help="sigmas of the second table; else what the rows bear")
    parser.add_argument("--choices-only", action="store_true", help="the second table alone")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    found = []
    with threadpool_limits(1):
        for name in options.data:
            found.append(results(name, options))
            if not options.json:
                show(found[-1])
    if options.json:
        print(json.dumps({"gamma": GAMMA, "results": found}))


if __name__ == "__main__":
    main()
