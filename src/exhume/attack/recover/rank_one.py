"""Recovery of one deleted record from the state before it and the head after it: no second identification.

``A_pre (W_pre - W_post) = f (e_k - W_post' f)'`` exactly: a rank-one matrix whose left vector is the deleted feature
and whose right vector names the label. The error is relative to the record, not to the state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, svd

from exhume.attack._line import line
from exhume.attack.block import Block
from exhume.attack.recover.base import Recovered, Recovery
from exhume.attack.recover.fit import fit_record
from exhume.attack.state import State, check_alike
from exhume.protocol.head import Head, unit_roundoff

__all__ = ["MARGIN", "RANK_ONE", "RECOVERIES", "UNEXPLAINED", "RankOneDiagnostics", "rank_one"]

RANK_ONE = 0.5
"""The self-check asks that the second singular value stays below this share of the first, whatever the noise."""

UNEXPLAINED = 0.02
"""And below this share, unless the known rounding of the two heads explains more."""

MARGIN = 2.0
"""The self-check asks that the second-best label fits at least this many times worse than the best."""


@dataclass(frozen=True, repr=False)
class RankOneDiagnostics:
    """How far the attacker can trust a record without any hidden value."""

    second: float
    """Second singular value over the first of the whitened change: zero for an isolated deletion of one record."""
    noise: float
    """What the known rounding of the two heads makes of that ratio, as a root mean square."""
    residual: float
    """Relative misfit between the right vector and ``e_k - W_post' f``."""
    margin: float
    """Misfit of the second-best label over that of the best."""

    @property
    def known(self) -> bool:
        """Whether the attacker would stand by the label."""
        return self.second < min(RANK_ONE, max(UNEXPLAINED, 3.0 * self.noise)) and self.margin > MARGIN

    def __repr__(self) -> str:
        return line(self, second=self.second, noise=self.noise, residual=self.residual, margin=self.margin)


def rank_one(before: State, after: Head, *, nonnegative: bool = False) -> Recovered:
    """Recover one deleted record from an identified state and the head after the deletion.

    Parameters
    ----------
    before
        The state before the deletion (`estimate.direct` or `estimate.symmetric`).
    after
        The head broadcast after the deletion.
    nonnegative
        Whether the encoder's features are known to be non-negative, which rules out half of the candidates.
    """
    check_alike(before, after)
    L = cholesky(before.A, lower=True, check_finite=False)
    # L^-1 A dW = L' dW: whitened, no direction of large variance drowns the others.
    left, values, right = svd(L.T @ (before.baseline.weights - after.weights), full_matrices=False, check_finite=False)
    record = fit_record(L @ left[:, 0], values[0] * right[0], after.weights, turn=True, positive=nonnegative)
    found = RankOneDiagnostics(
        second=float(values[1] / values[0]) if len(values) > 1 and values[0] > 0 else 0.0,
        noise=_whitened_rounding(before, after) / float(values[0]) if values[0] > 0 else 0.0,
        residual=record.residual,
        margin=record.margin,
    )
    block = Block.of_sample(record.label, record.feature, after.c)
    return Recovered(record.label, record.feature, block, found.known, found)


def _whitened_rounding(before: State, after: Head) -> float:
    """Return the root mean square Frobenius norm of the rounding errors of both heads, whitened by the state.

    An entry w rounded to nearest errs by up to ``u |w|``, uniformly: variance ``(u w)^2 / 3``.
    """
    entries = (unit_roundoff(before.baseline.precision) * before.baseline.weights) ** 2
    entries = (entries + (unit_roundoff(after.precision) * after.weights) ** 2) / 3.0
    return float(np.sqrt(np.diag(before.A) @ entries.sum(axis=1)))


RECOVERIES = (Recovery("rank-one", "one record from the state before and a single head after", rank_one, "head"),)
