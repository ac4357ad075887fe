"""How much noise a ledger's accuracy bears, measured on rows that the operator has labels for."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from exhume.errors import InputError
from exhume.protocol.ledger import Ledger

__all__ = ["accuracy_lost", "sigma_within"]

STEP = 1.1
"""Ratio of neighbouring sigmas that are tried."""

LEAST, MOST = 0.005, 1.0
"""Range of sigmas that are tried."""

DRAWS = 400
"""Draws of the noise for each row."""


def accuracy_lost(ledger: Ledger, features: ArrayLike, labels: ArrayLike, sigma: float, seed: int = 0) -> float:
    """Return the points of accuracy on some rows that posterior noise costs on average.

    The score of a row f gets noise of variance ``sigma^2 f' A^-1 f``, independent over classes; the mean over draws
    is taken row by row, so that no head has to be drawn.
    """
    F, y = np.asarray(features, dtype=np.float64), np.asarray(labels)
    if F.ndim != 2 or F.shape[1] != ledger.d or not len(F):
        raise InputError("features", f"at least one row of {ledger.d} features", f"shape {F.shape}")
    if y.shape != (len(F),):
        raise InputError("labels", f"one for each of {len(F)} rows", f"shape {y.shape}")
    scores = F @ ledger.head()
    size = np.sqrt(np.einsum("ij,ji->i", F, ledger.solve(np.ascontiguousarray(F.T))))
    rng = np.random.default_rng(seed)
    right = np.zeros(len(F))
    for _ in range(DRAWS):
        noisy = scores + sigma * size[:, None] * rng.standard_normal(scores.shape)
        right += noisy.argmax(axis=1) == y
    return 100.0 * float(np.mean((scores.argmax(axis=1) == y) - right / DRAWS))


def sigma_within(
    ledger: Ledger, features: ArrayLike, labels: ArrayLike, points: float = 0.2, *, seed: int = 0
) -> float:
    """Return the largest sigma up to which noise costs at most so many points on some rows that are not in the ledger.

    The rows are a sample: where noise changes a share q of the predictions, the cost is uncertain by about
    ``100 sqrt(q/n)`` points on n rows, half a point for 5% and 2,000 rows. Take the smaller of this and `sigma_for`.
    Tried from `LEAST` up in steps of a tenth, to `MOST`; `LEAST` is returned even where it costs more.
    """
    if not points > 0:
        raise InputError("points", "above 0", points)
    sigma = LEAST
    while sigma * STEP <= MOST and accuracy_lost(ledger, features, labels, sigma * STEP, seed) <= points:
        sigma *= STEP
    return sigma
