"""Recovery of one deleted record from the state before it and the head after it: no second identification.

``A_pre (W_pre - W_post) = f (e_k - W_post' f)'`` exactly: a rank-one matrix whose left vector is the deleted feature
and whose right vector names the label. The error is relative to the record, not to the state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from exhume.attack._line import line
from exhume.attack.block import Block
from exhume.attack.recover.base import Recovered, Recovery
from exhume.attack.recover.fit import fit_record
from exhume.attack.state import State, alike
from exhume.numerics import Matrix
from exhume.protocol.head import Head, unit_roundoff

__all__ = ["MARGIN", "RANK_ONE", "RECOVERIES", "UNEXPLAINED", "RankOneDiagnostics", "rank_one"]

RANK_ONE = 0.5
"""The self-check asks that the second singular value stays below this share of the first, whatever the noise."""

UNEXPLAINED = 0.02
"""And below this share, unless the known rounding of the two heads explains more."""

RIDGE_TURNS = 200
"""How often a change of the ridge and the rank-one part are fitted in turn, at most."""

MARGIN = 2.0
"""The self-check asks that the second-best label fits at least this many times worse than the best."""


@dataclass(frozen=True, repr=False)
class RankOneDiagnostics:
    """How far the attacker can trust a record without any hidden value."""

    second: float
    """Second singular value over the first of the whitened change: zero for an isolated deletion of one record.

    Infinite where there is none: a head of one class, or one that did not change.
    """
    noise: float
    """What the error of the two heads makes of that ratio, as a root mean square: their known rounding, or the server's
    measured arithmetic if that is more."""
    residual: float
    """Relative misfit between the right vector and ``e_k - W_post' f``."""
    margin: float
    """Misfit of the second-best label over that of the best."""

    @property
    def known(self) -> bool:
        """Whether the attacker would stand by the label."""
        explained = self.second < min(RANK_ONE, max(UNEXPLAINED, 3.0 * self.noise))
        # An error as large as half of the change can be of rank one by itself.
        return bool(explained and self.noise < RANK_ONE and self.margin > MARGIN)

    def __repr__(self) -> str:
        return line(self, second=self.second, noise=self.noise, residual=self.residual, margin=self.margin)


def rank_one(before: State, after: Head, *, nonnegative: bool = False, ridge: bool = False) -> Recovered:
    """Recover one deleted record from an identified state and the head after the deletion.

    Parameters
    ----------
    before
        The state before the deletion (`estimate.direct` or `estimate.symmetric`).
    after
        The head broadcast after the deletion.
    nonnegative
        Whether the encoder's features are known to be non-negative, which rules out half of the candidates.
    ridge
        Whether the server may have chosen another ridge since (`estimate.ridges`). With a change of t the right side
        is ``f (e_k - W_post' f)' + t W_post``: the t is taken that leaves it nearest to rank one.
    """
    before, after = alike(before, after)
    # L^-1 A dW = L' dW: whitened, no direction of large variance drowns the others.
    change = before.factor.whiten(before.baseline.weights - after.weights)
    if ridge:
        change = _without_ridge(change, before.factor.divide(after.weights))
    left, values, right = svd(change, full_matrices=False, check_finite=False)
    record = fit_record(
        before.factor.colour(left[:, :1])[:, 0], values[0] * right[0], after.weights, turn=True, positive=nonnegative
    )
    # One class, or no change at all: there is no second value that could tell a record from anything else.
    told = len(values) > 1 and values[0] > 0
    found = RankOneDiagnostics(
        second=float(values[1] / values[0]) if told else float("inf"),
        noise=max(_whitened_rounding(before, after), before.noise) / float(values[0]) if told else 0.0,
        residual=record.residual,
        margin=record.margin,
    )
    block = Block.of_sample(record.label, record.feature, after.c)
    return Recovered(record.label, record.feature, block, found.known, found)


def _without_ridge(change: Matrix, head: Matrix) -> Matrix:
    """Return ``change - t head`` for the t with the least energy outside the first singular value.

    Each turn takes the best t for the present rank-one part, then the best rank-one part for that t: the energy falls.
    It starts from several t, for it may end in a hollow: none, and those that empty one column of the change.
    """
    sizes = np.einsum("ij,ij->j", head, head)
    starts = [0.0, *(np.einsum("ij,ij->j", change, head)[sizes > 0] / sizes[sizes > 0])]
    best, least = change, np.inf
    for t in starts:
        for _ in range(RIDGE_TURNS):
            left, values, right = svd(change - t * head, full_matrices=False, check_finite=False)
            rest = change - values[0] * np.outer(left[:, 0], right[0])
            t, before = float(np.vdot(head, rest) / max(float(sizes.sum()), 1e-300)), t
            if abs(t - before) <= 1e-15 * abs(t):
                break
        outside = float(np.sum(svd(change - t * head, compute_uv=False, check_finite=False)[1:] ** 2))
        if outside < least:
            best, least = change - t * head, outside
    return best


def _whitened_rounding(before: State, after: Head) -> float:
    """Return the root mean square Frobenius norm of the rounding errors of both heads, whitened by the state.

    An entry w rounded to nearest errs by up to ``u |w|``, uniformly: variance ``(u w)^2 / 3``.
    """
    entries = (unit_roundoff(before.baseline.precision) * before.baseline.weights) ** 2
    entries = (entries + (unit_roundoff(after.precision) * after.weights) ** 2) / 3.0
    return float(np.sqrt(np.diag(before.A) @ entries.sum(axis=1)))


RECOVERIES = (Recovery("rank-one", "one record from the state before and a single head after", rank_one, "head"),)
