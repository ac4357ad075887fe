"""Recovery of one deleted record from the state before it and the head after it: no second identification.

``A_pre (W_pre - W_post) = f (e_k - W_post' f)'`` exactly: a rank-one matrix whose left vector is the deleted feature
and whose right vector names the label. The error is relative to the record, not to the state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, svd

from exhume.attack._linalg import Matrix
from exhume.attack.block import Block
from exhume.attack.identify import State
from exhume.errors import InputError
from exhume.protocol.head import Head, unit_roundoff

__all__ = ["MARGIN", "RANK_ONE", "UNEXPLAINED", "RankOne", "fit_scale", "rank_one"]

RANK_ONE = 0.5
"""The self-check asks that the second singular value stays below this share of the first, whatever the noise."""

UNEXPLAINED = 0.02
"""And below this share, unless the known rounding of the two heads explains more."""

MARGIN = 2.0
"""The self-check asks that the second-best label fits at least this many times worse than the best."""


@dataclass(frozen=True)
class RankOne:
    """One recovered record, and how far the attacker can trust it without any hidden value."""

    label: int
    feature: Matrix
    scale: float
    """Length of the feature."""
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

    def block(self, classes: int) -> Block:
        """Return the record as a deleted block: ``f f'`` and ``f e_k'``."""
        return Block.of_sample(self.label, self.feature, classes)


def fit_scale(right: Matrix, scores: Matrix) -> tuple[Matrix, Matrix]:
    """Return, per class k, the t with the least ``|right - t (e_k - t scores)|`` and that misfit.

    The stationary points are the roots of ``2|q|^2 t^3 - 3 q_k t^2 + (1 + 2 r.q) t - r_k`` (q scores, r right).
    """
    c = len(right)
    best, misfit = np.zeros(c), np.full(c, np.inf)
    for k in range(c):
        roots = np.roots([2 * scores @ scores, -3 * scores[k], 1 + 2 * right @ scores, -right[k]])
        for t in roots[np.abs(roots.imag) <= 1e-9 * (1 + np.abs(roots))].real:
            gap = right + t * t * scores
            gap[k] -= t
            size = float(np.linalg.norm(gap))
            if size < misfit[k]:
                best[k], misfit[k] = t, size
    return best, misfit


def rank_one(state: State, after: Head, *, nonnegative: bool = False) -> RankOne:
    """Recover one deleted record from an identified state and the head after the deletion.

    Parameters
    ----------
    state
        The state before the deletion (`identify` or `identify_symmetric`).
    after
        The head broadcast after the deletion.
    nonnegative
        Whether the encoder's features are known to be non-negative, which rules out half of the candidates.
    """
    if (after.d, after.c) != (state.d, state.c):
        raise InputError("after", f"of d = {state.d}, c = {state.c}", f"d = {after.d}, c = {after.c}")
    L = cholesky(state.A, lower=True, check_finite=False)
    # L^-1 A dW = L' dW: whitened, no direction of large variance drowns the others.
    left, values, right = svd(L.T @ (state.baseline.weights - after.weights), full_matrices=False, check_finite=False)
    direction = L @ left[:, 0]
    length = float(np.linalg.norm(direction))
    u, r = direction / length, values[0] * right[0] * length
    if u.sum() < 0:
        u, r = -u, -r
    t, misfit = fit_scale(r, after.weights.T @ u)
    ranked = np.where(t > 0, misfit, np.inf) if nonnegative and (t > 0).any() else misfit
    order = np.argsort(ranked)
    label = int(order[0])
    best = float(ranked[label])
    noise = _whitened_rounding(state, after)
    return RankOne(
        label=label,
        feature=t[label] * u,
        scale=abs(float(t[label])),
        second=float(values[1] / values[0]) if len(values) > 1 and values[0] > 0 else 0.0,
        noise=noise / float(values[0]) if values[0] > 0 else 0.0,
        residual=best / max(float(np.linalg.norm(r)), 1e-300),
        margin=float(ranked[order[1]]) / max(best, 1e-300) if len(order) > 1 else float("inf"),
    )


def _whitened_rounding(state: State, after: Head) -> float:
    """Return the root mean square Frobenius norm of the rounding errors of both heads, whitened by the state.

    An entry w rounded to nearest errs by up to ``u |w|``, uniformly: variance ``(u w)^2 / 3``.
    """
    entries = (unit_roundoff(state.baseline.precision) * state.baseline.weights) ** 2
    entries = (entries + (unit_roundoff(after.precision) * after.weights) ** 2) / 3.0
    return float(np.sqrt(np.diag(state.A) @ entries.sum(axis=1)))
