"""What posterior-shaped noise hides of a deletion: Gaussian-privacy figures per deletion, composed over releases.

A release is ``W + sigma L^-T Z`` with ``A = L L'``. Whoever must tell the state with a block from the state without it
faces two Gaussians. With the covariance of the state that still has the block on both sides they lie

    mu = |L'(W_with - W_without)|_F / sigma,

which for one record (f, k) is ``sqrt(f' A^-1 f) |e_k - W_without' f| / sigma``, and the best test of all has the error
rates of N(0, 1) against N(mu, 1): mu-Gaussian differential privacy. Independent draws add in squares.

What makes it exact is the common covariance. In truth the precision of each column also moves, by the factors ``1 + h``
(h the eigenvalues of ``A_without^-1 S_del``; the leverage for one record). The information in that is, to second
order, another ``mu_cov = sqrt(c/2 sum log(1 + h)^2)`` in squares; `Shift.covariance` carries it and every total here
includes it. It is small where leverage is: d/n on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigvalsh
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol.ledger import Ledger
from exhume.protocol.summary import Summary

__all__ = [
    "Shift",
    "advantage",
    "as_record",
    "averaged",
    "compose",
    "delta_of",
    "epsilon_of",
    "label_bound",
    "mu_of_advantage",
    "shift_of_deletion",
]

_RANK_ONE = 1e-9


@dataclass(frozen=True)
class Shift:
    """What one deletion moves, in units of the posterior: divide the mean by sigma to get its mu."""

    mean: float
    """``|L'(W_with - W_without)|_F``."""
    covariance: float
    """The mu of the covariance's own change, which sigma does not reduce."""

    def mu(self, sigma: float) -> float:
        """Return the mu of one release."""
        return math.hypot(self.mean / sigma, self.covariance)


def shift_of_deletion(ledger: Ledger, deleted: Summary) -> Shift:
    """Return the shift of a deletion that the ledger has already made.

    One record costs two solves with the kept factor; a block costs a factorisation and the eigenvalues of a pencil.
    """
    gap = deleted.moment - deleted.gram @ ledger.head()  # A_with (W_with - W_without)
    record = as_record(deleted.gram)
    if record is not None:
        solved = ledger.solve(np.column_stack([record, gap]))
        leverage = float(record @ solved[:, 0])
        # Sherman-Morrison: from the inverse without the record to the one with it.
        moved = solved[:, 1:] - np.outer(solved[:, 0], record @ solved[:, 1:]) / (1.0 + leverage)
        factors = np.array([leverage])
    else:
        without = ledger.summary.gram.copy()
        without.flat[:: ledger.d + 1] += ledger.gamma
        moved = cho_solve(cho_factor(without + deleted.gram), gap)
        factors = np.maximum(eigvalsh(deleted.gram, without), 0.0)
    mean = math.sqrt(max(float(np.vdot(gap, moved)), 0.0))
    covariance = math.sqrt(0.5 * ledger.c * float(np.sum(np.log1p(factors) ** 2)))
    return Shift(mean, covariance)


def as_record(gram: Matrix) -> Matrix | None:
    """Return f if the gram is ``f f'`` up to roundoff."""
    top = int(np.argmax(np.diag(gram)))
    size = float(gram[top, top])
    if size <= 0.0:
        return np.zeros(len(gram)) if not gram.any() else None
    f: Matrix = gram[top] / math.sqrt(size)
    rest = gram - np.outer(f, f)
    return f if max(float(rest.max()), -float(rest.min())) <= _RANK_ONE * size else None


def compose(mus: Iterable[float]) -> float:
    """Return the mu of several independent releases: the root of the sum of squares."""
    return math.sqrt(math.fsum(mu * mu for mu in mus))


def averaged(mu: float, before: int, after: int) -> float:
    """Return the mu of an attacker who knows neither state and averages releases on both sides of the deletion.

    Only the difference of the two means is known then, with noise ``1/before + 1/after``; an attacker who already
    knows the state before has ``mu sqrt(after)``.
    """
    return mu * math.sqrt(before * after / (before + after)) if before and after else 0.0


def advantage(mu: float) -> float:
    """Return the best advantage of any test, true minus false positive rate: ``2 Phi(mu/2) - 1``."""
    return float(2.0 * ndtr(_checked(mu) / 2.0) - 1.0)


def mu_of_advantage(best: float) -> float:
    """Return the mu at which no test has a larger advantage."""
    if not 0.0 <= best < 1.0:
        raise InputError("advantage", "from 0 to below 1", best)
    return float(2.0 * ndtri((1.0 + best) / 2.0))


def label_bound(mu: float, classes: int) -> float:
    """Return the largest chance to name the label of a deleted record, each class as likely as the others.

    For any guess, ``P(right) = 1/c sum_k P_k(guess = k) <= 1/c sum_k (P_0(guess = k) + TV(P_k, P_0))``, with P_0 the
    world without the deletion: chance plus the best advantage.
    """
    return min(1.0, 1.0 / classes + advantage(mu))


def delta_of(mu: float, epsilon: float) -> float:
    """Return the smallest delta with (epsilon, delta)-differential privacy at mu."""
    if _checked(mu) == 0.0:
        return 0.0
    second = math.exp(epsilon + float(log_ndtr(-epsilon / mu - mu / 2.0)))
    return max(float(ndtr(-epsilon / mu + mu / 2.0)) - second, 0.0)


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest epsilon with (epsilon, delta)-differential privacy at mu."""
    if not 0.0 < delta < 1.0:
        raise InputError("delta", "between 0 and 1", delta)
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    # delta_of(mu, e) <= Phi(mu/2 - e/mu), which is delta at this e.
    top = mu * (mu / 2.0 - float(ndtri(delta))) + 1.0
    return float(brentq(lambda e: delta_of(mu, e) - delta, 0.0, top, xtol=1e-12))


def _checked(mu: float) -> float:
    if not mu >= 0.0:
        raise InputError("mu", "at least 0", mu)
    return mu
