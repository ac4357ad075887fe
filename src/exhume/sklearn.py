"""A scikit-learn face of the ledger: fit, forget, predict."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from exhume.errors import InputError
from exhume.protocol.ledger import Ledger
from exhume.protocol.summary import Summary, Update

__all__ = ["UnlearningRidgeClassifier"]

DIGEST = 16
"""Bytes kept of each row, to know it again."""


class UnlearningRidgeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A ridge classifier that forgets rows exactly.

    After `forget` the coefficients are those of a fit that never saw the rows, up to roundoff. Of every row a digest is
    kept, so that only rows that were added, with the label and the weight that they were added with, can be forgotten.
    Sparse input is refused: the sums of features that the ledger keeps are dense.

    Parameters
    ----------
    gamma
        The ridge coefficient, positive.
    fit_intercept
        Whether to fit an intercept, which is not penalised. The protocol's heads have none.

    Attributes
    ----------
    classes_
        The class labels.
    coef_
        One row of coefficients per class (c x d).
    intercept_
        One intercept per class; zeros without ``fit_intercept``.
    ledger_
        The retained sums; with an intercept, of the features and a column of ones.
    n_samples_seen_
        Rows added minus rows forgotten.
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's own way to declare them)
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
    }

    def __init__(self, gamma: float = 1.0, *, fit_intercept: bool = False) -> None:
        self.gamma = gamma
        self.fit_intercept = fit_intercept

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> UnlearningRidgeClassifier:
        """Start anew from these rows."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self._start(unique_labels(y), X.shape[1])
        return self._change(X, y, sample_weight, adding=True)

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> UnlearningRidgeClassifier:
        """Add rows; the first call needs all ``classes`` unless ``y`` has them."""
        first = not hasattr(self, "ledger_")
        X, y = validate_data(self, X, y, dtype=np.float64, reset=first)
        check_classification_targets(y)
        if first:
            self._start(unique_labels(y if classes is None else classes), X.shape[1])
        elif classes is not None and not np.array_equal(unique_labels(classes), self.classes_):
            raise InputError("classes", f"those of the first call, {self.classes_.tolist()}", list(classes))
        return self._change(X, y, sample_weight, adding=True)

    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> UnlearningRidgeClassifier:
        """Remove rows that were added before, with the labels and weights that they came with; all or none."""
        check_is_fitted(self)
        X, y = validate_data(self, X, y, dtype=np.float64, reset=False)
        return self._change(X, y, sample_weight, adding=False)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return one score per row and class; for two classes, the difference of the two."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores: NDArray[np.float64] = X @ self.coef_.T + self.intercept_
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the largest score for each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[chosen]
        return labels

    def _start(self, classes: NDArray[Any], d: int) -> None:
        self.ledger_ = Ledger.zeros(d + self.fit_intercept, len(classes), float(self.gamma))
        self.classes_ = classes
        self.n_samples_seen_ = 0
        self._rows: Counter[tuple[bytes, int, float]] = Counter()

    def _change(
        self, X: NDArray[np.float64], y: NDArray[Any], weight: Any, *, adding: bool
    ) -> UnlearningRidgeClassifier:
        index = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        if not np.array_equal(self.classes_[index], y):
            raise InputError(
                "y", f"one of the classes {self.classes_.tolist()}", np.setdiff1d(y, self.classes_).tolist()
            )
        weights = _check_sample_weight(weight, X, dtype=np.float64, ensure_non_negative=True)
        rows = Counter(_digests(X, index, weights))
        if not adding:
            self._check_known(X, index, weights, rows)
        summary = self._summary(X, index, weights)
        self.ledger_.apply(Update.adding(summary) if adding else Update.deleting(summary))
        self._rows = self._rows + rows if adding else self._rows - rows
        self.n_samples_seen_ += len(X) if adding else -len(X)
        self._solve()
        return self

    def _summary(self, X: NDArray[np.float64], index: NDArray[np.intp], weights: NDArray[np.float64]) -> Summary:
        rows = np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X
        if np.all(weights == 1.0):
            return Summary.of(rows, index, len(self.classes_))
        half = np.sqrt(weights)[:, None] * rows  # its gram is symmetric to the last bit
        return Summary(half.T @ half, (weights[:, None] * rows).T @ np.eye(len(self.classes_))[index])

    def _solve(self) -> None:
        if not self.fit_intercept:
            self.coef_ = self.ledger_.head().T
            self.intercept_ = np.zeros(len(self.classes_))
            return
        gram, moment = self.ledger_.summary.gram, self.ledger_.summary.moment
        count, c = float(gram[-1, -1]), len(self.classes_)
        # Without any weight there is nothing to centre by.
        mean, share = (
            (gram[:-1, -1] / count, moment[-1] / count) if count > 0 else (np.zeros(len(gram) - 1), np.zeros(c))
        )
        centred = gram[:-1, :-1] - count * np.outer(mean, mean)
        factor = cho_factor(centred + self.gamma * np.eye(len(centred)))
        self.coef_ = cho_solve(factor, moment[:-1] - count * np.outer(mean, share)).T
        self.intercept_ = share - self.coef_ @ mean

    def _check_known(
        self,
        X: NDArray[np.float64],
        index: NDArray[np.intp],
        weights: NDArray[np.float64],
        asked: Counter[tuple[bytes, int, float]],
    ) -> None:
        """Refuse rows that are not in the ledger: taking them out would leave sums that no data has."""
        if not asked - self._rows:
            return
        left, held = Counter(self._rows), {row for row, *_ in self._rows}
        for number, key in enumerate(_digests(X, index, weights)):
            if left[key] > 0:
                left[key] -= 1
                continue
            if key[0] not in held:
                raise InputError("X", "rows that were added before", f"row {number}, which was not")
            if key in self._rows:
                raise InputError("X", "rows no more often than they were added", f"row {number} once more")
            label = self.classes_.tolist()[key[1]]
            raise InputError("y", "the label and weight that a row was added with", f"{label!r} for row {number}")


def _digests(
    X: NDArray[np.float64], index: NDArray[np.intp], weights: NDArray[np.float64]
) -> Iterator[tuple[bytes, int, float]]:
    """Yield what is kept of each row: a digest of its features, its class and its weight."""
    rows = np.ascontiguousarray(X) + 0.0  # one zero, not two
    for row, label, weight in zip(rows, index, weights, strict=True):
        yield hashlib.blake2b(row.tobytes(), digest_size=DIGEST).digest(), int(label), float(weight)
