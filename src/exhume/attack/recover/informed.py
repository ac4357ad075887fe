"""Reading a record from noise far above it: the attacker's own rows stand in for what could have been deleted.

The change of the totals at a deletion is seen through Gaussian noise of known covariance. Where the record stands out,
its leading direction is the estimate. Where it does not, the best that is left is Bayes' rule over candidates: how
likely is what was seen, had it been one of the attacker's own rows?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.special import logsumexp

from exhume.attack._line import line
from exhume.attack.block import Block
from exhume.attack.recover.base import Recovered, Recovery
from exhume.attack.recover.fit import fit_record
from exhume.attack.state import State, alike
from exhume.errors import InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.head import Head

__all__ = ["RECOVERIES", "Candidates", "InformedDiagnostics", "informed", "read_change", "read_white"]

CLEAR = 1.1
"""A leading value stands out if it is so many times the edge of the noise's spectrum."""


_MEDIAN = 0.6745
"""The median of |z| for a standard normal z."""


@dataclass(frozen=True, repr=False)
class InformedDiagnostics:
    """How a record was read."""

    stands_out: bool
    """Whether it was seen above the noise; else it is the likeliest of the attacker's own rows."""
    noise: float
    """The size of the noise of the moment, as given or as estimated."""

    def __repr__(self) -> str:
        return line(self, stands_out=self.stands_out, noise=self.noise)


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

    def __init__(self, A: Matrix, weights: Matrix, features: Matrix, labels: Rows, classes: int) -> None:
        self.L = cholesky(A, lower=True)
        self.weights, self.features, self.labels, self.classes = weights, features, labels, classes
        self.white = solve_triangular(self.L, features.T, lower=True).T
        self.residual = np.eye(classes)[labels] - features @ weights
        self.leverage = (self.white**2).sum(axis=1)

    def __repr__(self) -> str:
        return line(self, rows=len(self.features), d=len(self.L), c=self.classes)


def informed(
    before: State,
    after: Head | State,
    *,
    features: Matrix | None = None,
    labels: Rows | None = None,
    own: Candidates | None = None,
    size: float | None = None,
    tau: float = 0.0,
) -> Recovered:
    """Recover one deleted record by Bayes' rule over the attacker's own rows.

    Parameters
    ----------
    before
        The state before the deletion, or what the attacker takes for it.
    after
        The head after it; or a state, where the gram was seen too, with noise of its own.
    features, labels
        The attacker's rows.
    own
        These rows as `Candidates` of the state before, which many deletions share.
    size, tau
        Sizes of the noise of the moment and of the gram, as in `read_change`. A moment's is estimated if not given: by
        the median of what was seen, which is right where the noise is far above the record.
    """
    before, after = alike(before, after)
    if own is None:
        if features is None or labels is None or features.shape != (len(labels), before.d) or not len(labels):
            raise InputError("features, labels", f"at least one row of {before.d} features with its label", "others")
        own = Candidates(before.A, before.baseline.weights, features, labels, before.c)
    if isinstance(after, State):
        if not tau > 0:
            raise InputError("tau", "above 0 where a gram was seen", tau)
        gram = before.A - after.A
        moment = (before.G - after.G) - gram @ own.weights
        return read_change(own, moment, _size(own, moment) if size is None else size, gram, tau)
    moment = before.A @ (own.weights - after.weights)
    return read_change(own, moment, _size(own, moment) if size is None else size)


def _size(own: Candidates, moment: Matrix) -> float:
    return float(np.median(np.abs(solve_triangular(own.L, moment, lower=True)))) / _MEDIAN


def read_change(own: Candidates, moment: Matrix, s: float, gram: Matrix | None = None, tau: float = 0.0) -> Recovered:
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
    if gram is None:
        return read_white(own, Y, s)
    half = solve_triangular(own.L, gram, lower=True)
    X = solve_triangular(own.L, half.T, lower=True)
    return read_white(own, Y, s, 0.5 * (X + X.T), tau)


def read_white(own: Candidates, Y: Matrix, s: float, X: Matrix | None = None, tau: float = 0.0) -> Recovered:
    """Read one deleted record from a change that is whitened already, as `read_change` whitens it."""
    fit = (own.white @ Y * own.residual).sum(axis=1) - 0.5 * own.leverage * (own.residual**2).sum(axis=1)
    score = fit / max(s, 1e-300) ** 2
    if X is not None:
        value, vector = _leading(X)
        if value > CLEAR * 2.0 * tau * np.sqrt(len(X)):
            return _recovered(own, *_stands_out(own, Y, vector, np.sqrt(value)), s, stands_out=True)
        score = score + ((own.white @ X * own.white).sum(axis=1) - 0.5 * own.leverage**2) / (2.0 * tau**2)
    else:
        left, values, right = np.linalg.svd(Y, full_matrices=False)
        if values[0] > CLEAR * s * (np.sqrt(len(Y)) + np.sqrt(own.classes)):
            own_positive = bool((own.features >= 0).all())
            record = fit_record(own.L @ left[:, 0], values[0] * right[0], own.weights, turn=own_positive, positive=True)
            return _recovered(own, record.label, record.feature, s, stands_out=True)
    by_class = [
        logsumexp(score[own.labels == k]) - np.log((own.labels == k).sum()) if (own.labels == k).any() else -np.inf
        for k in range(own.classes)
    ]
    return _recovered(own, int(np.argmax(by_class)), own.features[int(np.argmax(score))], s, stands_out=False)


def _recovered(own: Candidates, label: int, feature: Matrix, noise: float, *, stands_out: bool) -> Recovered:
    block = Block.of_sample(label, feature, own.classes)
    return Recovered(label, feature, block, None, InformedDiagnostics(stands_out, noise))


def _leading(X: Matrix) -> tuple[float, Matrix]:
    last = len(X) - 1
    values, vectors = eigh(X, subset_by_index=[last, last])
    return float(values[0]), vectors[:, 0]


def _stands_out(own: Candidates, Y: Matrix, direction: Matrix, length: float) -> tuple[int, Matrix]:
    """Return the record along a direction of the whitened space: ``e_k = (e_k - W' f) + W' f``."""
    f = length * (own.L @ direction)
    if f.sum() < 0 and (own.features >= 0).all():
        f, direction = -f, -direction
    label = int(np.argmax(Y.T @ direction / length + own.weights.T @ f))
    return label, f


RECOVERIES = (
    Recovery("informed", "one record from noise far above it, by Bayes' rule over own rows", informed, "head"),
)
