"""A linear map from standardised features, learnt by ridge regression; the `ridge` decoder and diffusion's hint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.decode._base import Array, Pixels

__all__ = ["Linear", "Standard", "crossed", "fit_linear"]

PENALTIES = tuple(float(10.0**power) for power in np.arange(-1, 6.5, 0.5))
FLOOR = 1e-6
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Standard:
    """Mean and spread of each feature over the training rows."""

    centre: NDArray[np.float64]
    spread: NDArray[np.float64]

    @classmethod
    def of(cls, features: Array) -> Standard:
        """Measure both; a feature that never varies keeps its scale."""
        spread = features.std(axis=0)
        return cls(features.mean(axis=0), np.where(spread > FLOOR, spread, 1.0))

    def __call__(self, features: Array) -> NDArray[np.float64]:
        """Return features of mean 0 and spread 1."""
        scaled: NDArray[np.float64] = (features - self.centre) / self.spread
        return scaled


@dataclass(frozen=True, eq=False)
class Linear:
    """The learnt map."""

    standard: Standard
    weights: NDArray[np.float64]
    offset: NDArray[np.float64]
    penalty: float

    def __call__(self, features: Array) -> Pixels:
        """Return the targets of some features."""
        return self.standard(features) @ self.weights + self.offset

    def arrays(self) -> dict[str, Array]:
        """Return the map as named arrays."""
        return {
            "centre": self.standard.centre,
            "spread": self.standard.spread,
            "weights": self.weights,
            "offset": self.offset,
            "penalty": np.array([self.penalty]),
        }

    @classmethod
    def of(cls, arrays: dict[str, Array]) -> Linear:
        """Return the map that `arrays` gave."""
        standard = Standard(arrays["centre"], arrays["spread"])
        return cls(standard, arrays["weights"], arrays["offset"], float(arrays["penalty"][0]))


def fit_linear(features: Array, targets: Array, penalty: float | None = None) -> Linear:
    """Fit the map; the penalty is that of the least leave-one-out error unless it is given."""
    from sklearn.linear_model import Ridge, RidgeCV

    standard = Standard.of(features)
    scaled = standard(features)
    if penalty is None and len(features) == 1:
        # Nothing is left to judge a penalty by, and no penalty changes the map: it is the one target.
        penalty = PENALTIES[-1]
    model: Any = (RidgeCV(PENALTIES) if penalty is None else Ridge(penalty)).fit(scaled, targets)
    used = float(model.alpha_) if penalty is None else penalty
    # With a single target scikit-learn drops its axis.
    weights = np.ascontiguousarray(model.coef_.reshape(targets.shape[1], -1).T)
    return Linear(standard, weights, np.atleast_1d(model.intercept_), used)


def crossed(features: Array, targets: Array, penalty: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return for each row what a map that was fitted without it predicts: five folds at one penalty.

    A network that is shown predictions of rows that the map had seen would learn to trust them too much.
    """
    fold = rng.permutation(len(features)) % FOLDS
    guesses = np.empty(targets.shape)
    for number in range(FOLDS):
        held = fold == number
        if held.any():
            guesses[held] = fit_linear(features[~held], targets[~held], penalty)(features[held])
    return guesses
