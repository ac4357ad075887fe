"""Reading a record from noise far above it: the attacker's own rows stand in for what could have been deleted.

The change of the totals at a deletion is seen through Gaussian noise of known covariance. Where the record stands out,
its leading direction is the estimate. Where it does not, the best that is left is Bayes' rule over candidates: how
likely is what was seen, had it been one of the attacker's own rows?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.special import logsumexp

from exhume.attack._linalg import Matrix
from exhume.attack.rank_one import fit_scale

__all__ = ["Candidates", "Reading", "read_change"]

CLEAR = 1.1
"""A leading value stands out if it is so many times the edge of the noise's spectrum."""


@dataclass(frozen=True)
class Reading:
    """What a change says: the likeliest label, and the record it looks most like."""

    label: int
    feature: Matrix


class Candidates:
    """The attacker's own rows, whitened by the state before the deletion.

    Parameters
    ----------
    A
        The regularised gram before the deletion, or what the attacker takes for it.
    weights
        The head before it.
    features, labels
        The attacker's rows.
    classes
        Number of classes.
    """

    def __init__(self, A: Matrix, weights: Matrix, features: Matrix, labels: NDArray[np.intp], classes: int) -> None:
        self.L = cholesky(A, lower=True)
        self.weights, self.features, self.labels, self.classes = weights, features, labels, classes
        self.white = solve_triangular(self.L, features.T, lower=True).T
        self.residual = np.eye(classes)[labels] - features @ weights
        self.leverage = (self.white**2).sum(axis=1)


def read_change(own: Candidates, moment: Matrix, s: float, gram: Matrix | None = None, tau: float = 0.0) -> Reading:
    """Read one deleted record from a change of the totals.

    Parameters
    ----------
    own
        The attacker's rows.
    moment
        The change ``f (e_k - W' f)'`` of the moment about the old head, with noise ``s L Z``.
    s
        Size of that noise.
    gram
        The change ``f f'`` of the gram, with noise ``tau L (N + N') L' / sqrt(2)``, if that was seen too.
    tau
        Size of that noise.
    """
    Y = solve_triangular(own.L, moment, lower=True)
    fit = (own.white @ Y * own.residual).sum(axis=1) - 0.5 * own.leverage * (own.residual**2).sum(axis=1)
    score = fit / max(s, 1e-300) ** 2
    if gram is not None:
        half = solve_triangular(own.L, gram, lower=True)
        X = solve_triangular(own.L, half.T, lower=True)
        X = 0.5 * (X + X.T)
        value, vector = _leading(X)
        if value > CLEAR * 2.0 * tau * np.sqrt(len(X)):
            return _stands_out(own, Y, vector, np.sqrt(value))
        score = score + ((own.white @ X * own.white).sum(axis=1) - 0.5 * own.leverage**2) / (2.0 * tau**2)
    else:
        left, values, right = np.linalg.svd(Y, full_matrices=False)
        if values[0] > CLEAR * s * (np.sqrt(len(Y)) + np.sqrt(own.classes)):
            return _fitted(own, own.L @ left[:, 0], values[0] * right[0])
    by_class = [
        logsumexp(score[own.labels == k]) - np.log((own.labels == k).sum()) if (own.labels == k).any() else -np.inf
        for k in range(own.classes)
    ]
    return Reading(int(np.argmax(by_class)), own.features[int(np.argmax(score))])


def _leading(X: Matrix) -> tuple[float, Matrix]:
    last = len(X) - 1
    values, vectors = eigh(X, subset_by_index=[last, last])
    return float(values[0]), vectors[:, 0]


def _stands_out(own: Candidates, Y: Matrix, direction: Matrix, length: float) -> Reading:
    """Return the record along a direction of the whitened space: ``e_k = (e_k - W' f) + W' f``."""
    f = length * (own.L @ direction)
    if f.sum() < 0 and (own.features >= 0).all():
        f, direction = -f, -direction
    label = int(np.argmax(Y.T @ direction / length + own.weights.T @ f))
    return Reading(label, f)


def _fitted(own: Candidates, direction: Matrix, residual: Matrix) -> Reading:
    """Return the record of a rank-one change ``direction residual'``: the scale that makes the residual a record's."""
    length = float(np.linalg.norm(direction))
    unit, r = direction / length, residual * length
    if unit.sum() < 0 and (own.features >= 0).all():
        unit, r = -unit, -r
    scale, misfit = fit_scale(r, own.weights.T @ unit)
    label = int(np.argmin(np.where(scale > 0, misfit, np.inf) if (scale > 0).any() else misfit))
    return Reading(label, scale[label] * unit)
