"""What a lifetime of heads tells of one record, against points of accuracy: continual noise beside what else there is.

Every choice is set to a history of `--events` events, and all but the mask to the same lifetime mu of a median record:

``continual``: the noise of `exhume.hardened`, in a public measure, spread by a factorisation of prefix sums.

``AdaSSP`` (Wang 2018): the same factorisation, noise in the shape of a ball, half of mu squared for the gram and half
for the moment, and the ridge that the noise's spectrum asks for.

``output``: noise on every head, scaled to what a median record moves in it; all heads of the history compose.

``mask``: the deletion mask that `exhume.hardened` once had, at the moment of a deletion and over the whole history.

The attacker is told every noisy total (every head, for ``output``) and everything else that happened. What is left is
the deletion behind one draw of known size, the best linear combination of them all, which is what is simulated for
each record (`tests/defence/test_release_continual.py` holds the server to it; an addition is the same event). Who does
not know the feature reads by Bayes' rule over a fifth of the training rows, or by the leading direction of the gram
where that stands out; who knows the feature takes the likeliest label. Neither asks the head what it would predict.
``life``: the same attackers, told the record's addition as well as its deletion.

Accuracy lost is the mean over independent draws at times spread over the history; `--server` plays the history on the
real server as well, additions and deletions in turn. Deleted records are drawn with the same number from each class,
so that chance is 1/c.

    python benchmarks/noise_frontier.py [--data digits mnist cifar10] [--sigmas 0.1 0.2] [--spreads 0.7] [--trials 500]

MNIST and CIFAR-10 need ResNet-18 features (EXHUME_DATA_PATH, or `exhume data features`).
"""

import argparse
import json
import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from exhume.attack.recover.informed import CLEAR
from exhume.data import load_features
from exhume.defence import sigma_for
from exhume.defence.default import CAP, OUTLIER, before_gram
from exhume.defence.release import ContinualNoise, DeletionMask
from exhume.defence.release._epoch import EpochMeasure
from exhume.defence.release._factorisation import Factorisation
from exhume.defence.release._noisy_head import solve
from exhume.defence.release._packed import packed
from exhume.protocol import Ledger, Server, Summary, Update

GAMMA = 1e-3
DRAWS = 60
MASK_SPREAD = 0.7


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
        self.d = len(self.A)
        self.L = cholesky(self.A, lower=True)
        self.W = self.back(self.L, solve_triangular(self.L, self.G, lower=True))
        order = self.rng.permutation(len(self.F))
        rest = order[len(order) // 5 :]
        per = max(trials // self.c, 1)
        self.deleted = np.concatenate([rest[self.y[rest] == k][:per] for k in range(self.c)])
        self.own = order[: len(order) // 5]
        self.exact = self.right(self.W)

    @staticmethod
    def back(L, Z):
        """Return ``L^-T Z``."""
        return solve_triangular(L, Z, lower=True, trans="T")

    def right(self, head):
        features, labels = self.test
        return 100 * float(((features @ head).argmax(axis=1) == labels).mean())

    def symmetric(self):
        """Return ``(N + N') / sqrt(2)`` of a standard normal N."""
        N = self.rng.standard_normal((self.d, self.d))
        return (N + N.T) / math.sqrt(2)


@dataclass
class Noise:
    """What a deletion is behind: s of the moment, tau of the gram (none where heads alone are seen), a cap on mu."""

    s: float
    tau: float | None = None
    cap: float = math.inf

    def over(self, factor):
        return Noise(self.s / factor, None if self.tau is None else self.tau / factor, self.cap)

    def mu(self, leverage, residual):
        gram = 0.0 if self.tau is None else leverage / (math.sqrt(2) * self.tau)
        return float(np.hypot(gram, np.sqrt(leverage) * np.linalg.norm(residual) / self.s))


class View:
    """Rows in coordinates in which the noise is isotropic: a deletion takes ``w w'`` and ``w r'`` away.

    Parameters
    ----------
    problem
        The ledger and the rows.
    white
        From features (a row each) to w.
    centred
        Whether the moment is seen about the head, ``r = e_k - W' f``; else ``r = e_k``.
    scale
        From features to what r is multiplied by, 1 if none.
    """

    def __init__(self, problem, white, *, centred=True, scale=None):
        self.p, self.centred, self.scale = problem, centred, scale
        own, gone = problem.F[problem.own], problem.F[problem.deleted]
        self.own, self.white = white(own), white(gone)
        self.own_side, self.sides = self._sides(own, problem.y[problem.own]), self._sides(gone)
        self.leverage = (self.own**2).sum(axis=1)

    def _sides(self, features, labels=None):
        """Return r of each row: of its label, or (rows x labels x c) of every label that it could have."""
        scores = features @ self.p.W if self.centred else np.zeros((len(features), self.p.c))
        size = np.ones(len(features)) if self.scale is None else self.scale(features)
        if labels is not None:
            return size[:, None] * (np.eye(self.p.c)[labels] - scores)
        return size[:, None, None] * (np.eye(self.p.c)[None] - scores[:, None])

    def read(self, noises):
        """Return, per noise, the share of right labels without the feature and with it, and the median mu.

        All noises share the draws, and with them the products that cost something.
        """
        p, hits, mus = self.p, np.zeros((len(noises), 2)), []
        for i, row in enumerate(p.deleted):
            w, sides = self.white[i], self.sides[i]
            label, lev, dots = p.y[row], float(w @ w), self.own @ w
            Z, N, forms, top = p.rng.standard_normal((p.d, p.c)), None, None, 0.0
            if any(noise.tau is not None for noise in noises):
                N = p.symmetric()
                forms = ((self.own @ N) * self.own).sum(axis=1)
                top = float(eigh(N, eigvals_only=True, subset_by_index=[p.d - 1, p.d - 1])[0])
            moved, seen = self.own @ Z, w @ Z
            mus.append([noise.mu(lev, sides[label]) for noise in noises])
            for j, noise in enumerate(noises):
                share = min(1.0, noise.cap / mus[-1][j])
                r = share * sides[label]
                known = (lev * r + noise.s * seen) @ sides.T - 0.5 * lev * (sides**2).sum(axis=1)
                hits[j, 1] += int(known.argmax()) == label
                if noise.tau is not None and share * lev + noise.tau * top > CLEAR * 2 * noise.tau * math.sqrt(p.d):
                    found = self._stands_out(w, r, share, N, Z, noise)
                    if found is not None:
                        hits[j, 0] += found == label
                        continue
                hits[j, 0] += self._bayes(dots, r, share, moved, forms, noise) == label
        return hits / len(p.deleted), np.minimum(np.median(mus, axis=0), [noise.cap for noise in noises])

    def _bayes(self, dots, r, share, moved, forms, noise):
        seen = dots[:, None] * r + noise.s * moved
        score = (seen * self.own_side).sum(axis=1) - 0.5 * self.leverage * (self.own_side**2).sum(axis=1)
        score /= noise.s**2
        if noise.tau is not None:
            score += (share * dots**2 + noise.tau * forms - 0.5 * self.leverage**2) / (2 * noise.tau**2)
        labels = self.p.y[self.p.own]
        return int(np.argmax([logsumexp(score[labels == k]) - np.log((labels == k).sum()) for k in range(self.p.c)]))

    def _stands_out(self, w, r, share, N, Z, noise):
        """Return the label along the leading direction of the gram; None where that does not stand out."""
        X, last = share * np.outer(w, w) + noise.tau * N, self.p.d - 1
        (value,), v = eigh(X, subset_by_index=[last, last])
        if value <= CLEAR * 2 * noise.tau * math.sqrt(self.p.d):
            return None
        v, length = v[:, 0], math.sqrt(value)
        if self.centred:
            f = length * (self.p.L @ v)
            turn = -1.0 if f.sum() < 0 else 1.0  # features are not negative
            side, scores = turn * (v @ w * r + noise.s * (v @ Z)), turn * (f @ self.p.W)
        else:
            turn = -1.0 if v.sum() < 0 else 1.0
            side, scores = turn * (v @ w * r + noise.s * (v @ Z)), 0.0
        return int((side / length + scores).argmax())


def whitened(problem):
    return View(problem, lambda F: solve_triangular(problem.L, F.T, lower=True).T)


def raw(problem):
    return View(problem, lambda F: F, centred=False)


def in_heads(problem):
    """Return rows as heads show them: ``W - W_post = A^-1 f (e_k - W' f)' / (1 - f' A^-1 f)``."""

    def white(F):
        return problem.back(problem.L, solve_triangular(problem.L, F.T, lower=True)).T

    return View(problem, white, scale=lambda F: 1.0 / (1.0 - (white(F) * F).sum(axis=1)))


def lost(problem, heads):
    """Return by how many points heads are worse than the exact one, on average, and the error of that."""
    points = np.array([problem.exact - problem.right(head) for head in heads])
    return {"lost": float(points.mean()), "lost_error": float(points.std(ddof=1) / math.sqrt(len(points)))}


def growths(events):
    """Return the size of the noise at times spread over a history, in draws."""
    f = Factorisation.of(events + 1)
    return [f.growth(int(t)) for t in np.linspace(1, events, DRAWS)]


def continual_cost(problem, s, tau, sizes):
    def head(size):
        gram = np.asfortranarray(np.eye(problem.d) + size * tau * problem.symmetric())
        moment = size * s * problem.rng.standard_normal(problem.W.shape)
        solved, _ = solve(packed(gram), moment, lambda: packed(gram))
        return problem.W + problem.back(problem.L, solved)

    return lost(problem, map(head, sizes))


def rule_of(sigma, spread, events):
    """Return the noise as `exhume.hardened` sets it, for a history of so many events."""
    return ContinualNoise(
        before_gram(sigma, spread), spread=spread, horizon=events + 1, cap=CAP, outlier=OUTLIER, grows=False
    )


def in_measure(problem, pairs, sigmas, events):
    """Return the noise of `exhume.hardened` for each sigma and spread, and the earlier mask for some sigmas.

    The mask is read as a deletion is behind it when it happens, and after the history.
    """
    f, d = Factorisation.of(events + 1), problem.d
    rules, measure = [rule_of(*pair, events) for pair in pairs], EpochMeasure.of(problem.A, problem.G)
    noises = [Noise(*rule.event_noise(d), cap=rule._figures.limit(measure)).over(f.sensitivity) for rule in rules]
    masks = [DeletionMask(before_gram(sigma, MASK_SPREAD), spread=MASK_SPREAD, key=b"0" * 32) for sigma in sigmas]
    once = [Noise(*rule.deletion_noise(d)) for rule in masks]
    told = [*noises, *(noise.over(math.sqrt(2)) for noise in noises)]
    later = [noise.over(mask_history(events)) for noise in once]
    rates, mus = whitened(problem).read([*told, *once, *later])
    rows = []
    for i, ((sigma, spread), rule) in enumerate(zip(pairs, rules, strict=True)):
        cost = continual_cost(problem, *rule.event_noise(d), growths(events))
        rows.append({"name": "continual", "sigma": sigma, "spread": spread, "mu": float(mus[i]), **cost})
        rows[-1] |= _rates(rates[i], rates[len(pairs) + i])
    for i, (sigma, rule) in enumerate(zip(sigmas, masks, strict=True)):
        cost = continual_cost(problem, rule.sigma, rule.spread / (2 * math.sqrt(d)), np.ones(DRAWS))
        for name, at in (("mask, at once", len(told) + i), ("mask, history", len(told) + len(sigmas) + i)):
            rows.append({"name": name, "sigma": sigma, "spread": MASK_SPREAD, "mu": float(mus[at]), **cost})
            rows[-1] |= _rates(rates[at])
    return rows


def _rates(event, life=None):
    found = {"blind": float(event[0]), "known": float(event[1])}
    return found if life is None else found | {"life_blind": float(life[0]), "life_known": float(life[1])}


def adassp(problem, mus, events):
    """Return AdaSSP at some lifetime mu of a median record: half of mu squared for the gram, half for the moment."""
    f, view = Factorisation.of(events + 1), raw(problem)
    length = float(np.median(np.linalg.norm(problem.F[problem.deleted], axis=1)))
    noises = [Noise(length * math.sqrt(2) / mu, length**2 / mu) for mu in mus]
    rates, _ = view.read([*noises, *(noise.over(math.sqrt(2)) for noise in noises)])
    rows = []
    for i, (mu, noise) in enumerate(zip(mus, noises, strict=True)):
        s, tau = noise.s * f.sensitivity, noise.tau * f.sensitivity
        heads = (_adassp_head(problem, size * s, size * tau) for size in growths(events))
        rows.append({"name": "AdaSSP", "mu": mu, **lost(problem, heads), **_rates(rates[i], rates[len(mus) + i])})
    return rows


def _adassp_head(problem, s, tau):
    gram = problem.A + tau * problem.symmetric()
    least = float(eigh(gram, eigvals_only=True, subset_by_index=[0, 0])[0])
    ridge = max(0.0, 2.0 * math.sqrt(problem.d) * tau - max(least, 0.0))  # the spectrum of the noise
    moment = problem.G + s * problem.rng.standard_normal(problem.G.shape)
    return np.linalg.solve(gram + ridge * np.eye(problem.d), moment)


def output(problem, mus, events):
    """Return noise on every head at some lifetime mu of a median record: the heads of a history compose."""
    view = in_heads(problem)
    moved = [np.linalg.norm(w) * np.linalg.norm(side[problem.y[row]]) for w, side, row in _deleted(view)]
    noises = [Noise(float(np.median(moved)) / mu) for mu in mus]
    rates, _ = view.read([*noises, *(noise.over(math.sqrt(2)) for noise in noises)])
    rows = []
    for i, (mu, noise) in enumerate(zip(mus, noises, strict=True)):
        size = noise.s * math.sqrt(events)
        heads = (problem.W + size * problem.rng.standard_normal(problem.W.shape) for _ in range(DRAWS))
        rows.append({"name": "output", "mu": mu, **lost(problem, heads), **_rates(rates[i], rates[len(mus) + i])})
    return rows


def _deleted(view):
    return zip(view.white, view.sides, view.p.deleted, strict=True)


def mask_history(events, clients=12, memory=0.5, seed=0):
    """Return by what factor a history of deletions sharpens the first one's draw, for the mask of one colluder.

    Noise on the totals is ``K z``: the last client's part is drawn again at each of its deletions, and at one of
    somebody else everything fades by half into a common part with a draw of its own. A deletion is a step in all later
    totals, whose size is ``|K^-1 step|`` in draws.
    """
    rng, count = np.random.default_rng(seed), max(events // 2, 1)
    K, last = np.zeros((count, 2 * count)), -1
    common, own = np.zeros(2 * count), np.zeros(2 * count)
    for t in range(count):
        client = int(rng.integers(clients))
        if client != last and t:
            common = memory * (common + own)
            common[2 * t] += 1.0
        own = np.zeros(2 * count)
        own[2 * t + 1], last = 1.0, client
        K[t] = common + own
    return float(np.sqrt(np.ones(count) @ np.linalg.solve(K @ K.T, np.ones(count))))


def history_cost(problem, rule, events, every=25):
    """Return the mean points that the heads of a whole history lose: rows go and come back, one at a time."""
    server = Server(Ledger(Summary(problem.F.T @ problem.F, problem.G), GAMMA), release=rule)
    found, gone = [], list(problem.rng.permutation(len(problem.F))[: events // 2 + 1])
    for i in range(events):
        row = gone[i // 2]
        block = Summary.of(problem.F[[row]], problem.y[[row]], problem.c)
        server.submit(Update.adding(block) if i % 2 else Update.deleting(block), f"client {i % 12}")
        if i % every == every - 1:
            found.append(problem.right(server.ledger.head()) - problem.right(server.head().weights))
    return float(np.mean(found))


def results(name, options):
    problem = Problem(name, options.trials)
    sigmas = options.sigmas or [sigma_for(len(problem.F), problem.d)]
    pairs = [(sigma, spread) for spread in options.spreads for sigma in sigmas]
    made = in_measure(problem, pairs, [] if options.ours else sigmas, options.events)
    ours = [row for row in made if row["name"] == "continual"]
    if options.server:
        for row in ours:
            row["server_lost"] = history_cost(
                problem, rule_of(row["sigma"], row["spread"], options.events), options.events
            )
    if not options.ours:
        mus = [row["mu"] for row in ours]
        made += adassp(problem, mus, options.events) + output(problem, mus, options.events)
    size = {"d": problem.d, "rows": len(problem.F), "classes": problem.c, "trials": len(problem.deleted)}
    return {"data": name, **size, "events": options.events, "accuracy": problem.exact, "choices": made}


def show(result):
    print(f"{result['data']}: d = {result['d']}, {result['rows']} rows, accuracy {result['accuracy']:.2f}%")
    error = 100 * np.sqrt((1 - 1 / result["classes"]) / result["classes"] / result["trials"])
    print(f"  {result['events']} events, all told; labels read, % of {result['trials']} (error {error:.1f} at chance)")
    print(f"  {'':>14} {'sigma':>6} {'spread':>6} {'mu':>6} {'blind':>7} {'knows f':>8}   (for life)      points lost")
    for row in result["choices"]:
        sigma = " ".join(f"{row[name]:6.3f}" if name in row else " " * 6 for name in ("sigma", "spread"))
        life = f"{100 * row['life_blind']:7.1f} {100 * row['life_known']:7.1f}" if "life_blind" in row else " " * 15
        server = f" (server {row['server_lost']:.2f})" if "server_lost" in row else ""
        print(
            f"  {row['name']:>14} {sigma} {row['mu']:6.2f} {100 * row['blind']:7.1f} {100 * row['known']:8.1f} {life}"
            f" {row['lost']:8.2f} +- {row['lost_error']:.2f}{server}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["digits"])
    parser.add_argument("--sigmas", type=float, nargs="+", help="noise in the head; if not given, what the rows bear")
    parser.add_argument("--spreads", type=float, nargs="+", default=[0.7], help="noise on the gram")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--events", type=int, default=1000, help="length of the history")
    parser.add_argument("--ours", action="store_true", help="continual noise alone")
    parser.add_argument("--server", action="store_true", help="also play the history on the real server")
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
