"""A guess of the state without a single probe."""

from __future__ import annotations

import numpy as np

from exhume.errors import InputError
from exhume.numerics import Matrix

__all__ = ["gram_guess"]


def gram_guess(features: Matrix, rows: float | None = None) -> Matrix:
    """Return a positive definite guess of A from the attacker's own rows, scaled to ``rows`` rows if given."""
    if features.ndim != 2 or len(features) < 1:
        raise InputError("features", "a two-dimensional array of at least one row", f"shape {features.shape}")
    guess = features.T @ features
    guess.flat[:: len(guess) + 1] += 1e-3 * np.trace(guess) / len(guess)
    return guess if rows is None else guess * (rows / len(features))
