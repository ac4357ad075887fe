"""From a rank-one change of the head to the record behind it: which class, and how long its feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exhume.attack._line import line
from exhume.numerics import Matrix

__all__ = ["Fitted", "fit_record", "fit_scale"]


@dataclass(frozen=True, repr=False)
class Fitted:
    """The record that explains a rank-one change best."""

    label: int
    feature: Matrix
    residual: float
    """Relative misfit between the right vector and ``e_k - W_post' f``."""
    margin: float
    """Misfit of the second-best label over that of the best."""

    def __repr__(self) -> str:
        return line(self, label=self.label, feature=self.feature, residual=self.residual, margin=self.margin)


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


def fit_record(direction: Matrix, right: Matrix, weights: Matrix, *, turn: bool, positive: bool) -> Fitted:
    """Return the record whose change ``f (e_k - W' f)'`` is nearest to ``direction right'``.

    Parameters
    ----------
    direction, right
        The two vectors of the change.
    weights
        The head W.
    turn
        Whether a direction of negative sum is turned round first.
    positive
        Whether only records along the direction count, not against it, where there is any.
    """
    length = float(np.linalg.norm(direction))
    u, r = direction / length, right * length
    if turn and u.sum() < 0:
        u, r = -u, -r
    t, misfit = fit_scale(r, weights.T @ u)
    ranked = np.where(t > 0, misfit, np.inf) if positive and (t > 0).any() else misfit
    order = np.argsort(ranked)
    label = int(order[0])
    best = float(ranked[label])
    return Fitted(
        label=label,
        feature=t[label] * u,
        residual=best / max(float(np.linalg.norm(r)), 1e-300),
        margin=float(ranked[order[1]]) / max(best, 1e-300) if len(order) > 1 else float("inf"),
    )
