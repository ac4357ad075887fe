"""What every room shares of numbers: array types, the paper's two tolerances, relative errors.

The one home of these names: no room defines them again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["DENOMINATOR_FLOOR", "RANK_TOLERANCE", "Matrix", "Rows", "relative", "symmetric"]

Matrix = NDArray[np.float64]
"""Any array of float64: a matrix, or a vector where a docstring says so."""

Rows = NDArray[np.intp]
"""Whole numbers: row numbers of a data set, or one label per row."""

RANK_TOLERANCE = 1e-10
"""Numerical rank counts singular values above this share of the largest (the paper's epsilon_rank)."""

DENOMINATOR_FLOOR = 1e-15
"""Smallest denominator of a relative error (the paper's epsilon_den)."""


def relative(error: Matrix, reference: Matrix) -> float:
    """Return a relative Frobenius error with the paper's floor on the denominator."""
    return float(np.linalg.norm(error) / max(float(np.linalg.norm(reference)), DENOMINATOR_FLOOR))


def symmetric(a: Matrix) -> Matrix:
    """Return the nearest symmetric matrix."""
    half: Matrix = 0.5 * (a + a.T)
    return half
