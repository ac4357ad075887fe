"""Symmetric matrices as LAPACK's rectangular packed triangle: half the numbers, at the speed of the full ones.

The layout is that of ``transr = "N"``, ``uplo = "L"``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.linalg.lapack import dsfrk, dtfttr, dtrttf

from exhume.numerics import Matrix, Rows

__all__ = ["add_products", "diagonal", "identity", "packed", "size", "unpacked", "whole"]


def size(d: int) -> int:
    """Return how many numbers a triangle has."""
    return d * (d + 1) // 2


@lru_cache(maxsize=8)
def diagonal(d: int) -> Rows:
    """Return where the diagonal is: the first half of the columns leads, the rest is beside it, turned over."""
    first, odd = (d + 1) // 2, d % 2
    lead, rest = np.arange(first), np.arange(d - first)
    height = d + 1 - odd
    found = np.concatenate([lead * (height + 1) + 1 - odd, rest * (height + 1) + odd * height])
    found.flags.writeable = False
    return found


def identity(d: int) -> Matrix:
    """Return the unit matrix."""
    made = np.zeros(size(d))
    made[diagonal(d)] = 1.0
    return made


def packed(matrix: Matrix) -> Matrix:
    """Return the lower triangle of a full matrix."""
    made, _ = dtrttf(np.asfortranarray(matrix), uplo="L")
    return np.asarray(made)


def unpacked(triangle: Matrix, d: int) -> Matrix:
    """Return it as a lower triangle in Fortran order; what is above the diagonal means nothing."""
    made, _ = dtfttr(d, triangle, uplo="L")
    return np.asarray(made)


def whole(triangle: Matrix, d: int) -> Matrix:
    """Return the symmetric matrix."""
    lower = np.tril(unpacked(triangle, d))
    return np.asarray(lower + np.tril(lower, -1).T)


def add_products(triangle: Matrix, columns: Matrix, share: float) -> None:
    """Add ``share X X'`` in place; X (d x k) is in Fortran order."""
    d, k = columns.shape
    dsfrk(d, k, share, columns, 1.0, triangle, uplo="L", overwrite_c=1)
