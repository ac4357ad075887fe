"""A scikit-learn face of the ledger: fit, forget, predict."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data

from exhume.errors import InputError
from exhume.protocol.ledger import Ledger
from exhume.protocol.summary import Summary, Update

__all__ = ["UnlearningRidgeClassifier"]


class UnlearningRidgeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A ridge classifier without intercept that forgets rows exactly.

    After `forget` the coefficients are those of a fit that never saw the rows, up to roundoff.

    Parameters
    ----------
    gamma
        The ridge coefficient, positive.

    Attributes
    ----------
    classes_
        The class labels.
    coef_
        One row of coefficients per class (c x d).
    ledger_
        The retained sums.
    n_samples_seen_
        Rows added minus rows forgotten.
    """

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = gamma

    def fit(self, X: Any, y: Any) -> UnlearningRidgeClassifier:
        """Start anew from these rows."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self._start(unique_labels(y), X.shape[1])
        return self._change(X, y, adding=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> UnlearningRidgeClassifier:
        """Add rows; the first call needs all ``classes`` unless ``y`` has them."""
        first = not hasattr(self, "ledger_")
        X, y = validate_data(self, X, y, dtype=np.float64, reset=first)
        check_classification_targets(y)
        if first:
            self._start(unique_labels(y if classes is None else classes), X.shape[1])
        elif classes is not None and not np.array_equal(unique_labels(classes), self.classes_):
            raise InputError("classes", f"those of the first call, {list(self.classes_)}", list(classes))
        return self._change(X, y, adding=True)

    def forget(self, X: Any, y: Any) -> UnlearningRidgeClassifier:
        """Remove rows that were added before."""
        check_is_fitted(self)
        X, y = validate_data(self, X, y, dtype=np.float64, reset=False)
        if len(X) > self.n_samples_seen_:
            raise InputError("X", f"at most the {self.n_samples_seen_} rows added before", f"{len(X)} rows")
        return self._change(X, y, adding=False)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return one score per row and class; for two classes, the difference of the two."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores: NDArray[np.float64] = X @ self.coef_.T
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the largest score for each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[chosen]
        return labels

    def _start(self, classes: NDArray[Any], d: int) -> None:
        self.ledger_ = Ledger.zeros(d, len(classes), self.gamma)
        self.classes_ = classes
        self.n_samples_seen_ = 0

    def _change(self, X: NDArray[np.float64], y: NDArray[Any], *, adding: bool) -> UnlearningRidgeClassifier:
        index = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        if not np.array_equal(self.classes_[index], y):
            raise InputError("y", f"one of the classes {list(self.classes_)}", sorted(set(y) - set(self.classes_)))
        summary = Summary.of(X, index, len(self.classes_))
        self.ledger_.apply(Update.adding(summary) if adding else Update.deleting(summary))
        self.n_samples_seen_ += len(X) if adding else -len(X)
        self.coef_ = self.ledger_.head().T
        return self
