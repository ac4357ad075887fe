"""What every room shares of numbers: array types, the paper's two tolerances, relative errors, extreme eigenvalues.

The one home of these names: no room defines them again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "DENOMINATOR_FLOOR",
    "LANCZOS_FROM",
    "RANK_TOLERANCE",
    "Matrix",
    "Rows",
    "extremes",
    "largest_eigenvalue",
    "mirrored",
    "relative",
    "symmetric",
]

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


_TILE = 512  # rows and columns of a square that is gone through piece by piece


def mirrored(a: Matrix) -> Matrix:
    """Fill the lower triangle of a square matrix from its upper one, in place, and return it: LAPACK fills one."""
    for i in range(0, len(a), _TILE):
        for j in range(0, i, _TILE):
            a[i : i + _TILE, j : j + _TILE] = a[j : j + _TILE, i : i + _TILE].T
        tile = a[i : i + _TILE, i : i + _TILE]
        tile[:] = np.triu(tile) + np.triu(tile, 1).T
    return a


LANCZOS_FROM = 64
"""Below this size a full decomposition is cheaper than setting up an iteration."""

_RITZ_TOLERANCE = 1e-6  # of the residual: the error of a Ritz value is of its square

_LANCZOS_VECTORS = 8  # kept between restarts: where the largest eigenvalue stands apart, few products are enough


def largest_eigenvalue(apply: Callable[[Matrix], Matrix], d: int) -> float:
    """Return the largest eigenvalue of a positive matrix given by its products, by Lanczos from a fixed start.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the iteration does not converge.
    """
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    start = np.cos(np.arange(1, d + 1, dtype=np.float64))
    operator = LinearOperator((d, d), matvec=apply, dtype=np.float64)
    try:
        found = eigsh(
            operator,
            k=1,
            which="LA",
            v0=start,
            ncv=min(d, _LANCZOS_VECTORS),
            tol=_RITZ_TOLERANCE,
            return_eigenvectors=False,
        )
        return float(found[0])
    except ArpackError as error:
        raise np.linalg.LinAlgError(f"Lanczos: {error}") from error


def extremes(apply: Callable[[Matrix], Matrix], solve: Callable[[Matrix], Matrix], d: int) -> tuple[float, float]:
    """Return the largest and smallest eigenvalue of a positive definite matrix given by products and solves."""
    if d < LANCZOS_FROM:
        values = np.linalg.eigvalsh(symmetric(apply(np.eye(d))))
        return float(values[-1]), float(values[0])
    return largest_eigenvalue(apply, d), 1.0 / largest_eigenvalue(solve, d)
