"""Input checks shared by the protocol's parties: cheap on good input, exact in what they reject."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dasum

from exhume.errors import InputError
from exhume.numerics import Matrix

__all__ = [
    "MOST",
    "SYMMETRY_TOLERANCE",
    "as_count",
    "as_features",
    "as_labels",
    "as_matrix",
    "as_name",
    "check_symmetric",
    "extent",
]

SYMMETRY_TOLERANCE = 2.0**-28
"""Largest relative asymmetry that roundoff explains.

Summing n products in any order errs by at most n u max(diag S), u = 2**-53, so two transposed entries of a computed
gram differ by at most 2 n u max(diag S). With n up to 2**24 rows in one batch that is 2**-28.
"""

MOST = 2**63 - 1
"""The largest counter, count or number of pairs: what 64 bits with a sign hold."""

_TILE = 128
_LONGEST_NAME = 256


def extent(a: Matrix) -> float:
    """Return the largest magnitude in ``a``; NaN or infinity if any entry is."""
    if a.size == 0:
        return 0.0
    return max(float(a.max()), -float(a.min()))


def as_count(value: Any, field: str) -> int:
    """Return ``value`` as a plain whole number of at least 1, or say what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(field, "a whole number of at least 1", value)
    if value > MOST:
        raise InputError(field, f"at most {MOST}", value)
    return int(value)


def as_matrix(value: Any, field: str, shape: tuple[int | None, int | None] = (None, None)) -> Matrix:
    """Return ``value`` as a two-dimensional float64 array, or say what is wrong with it."""
    array = np.asarray(value)
    if array.dtype != np.float64:
        raise InputError(field, "a float64 array", f"dtype {array.dtype}")
    if array.ndim != 2 or any(w is not None and w != n for w, n in zip(shape, array.shape, strict=True)):
        want = " x ".join("any" if n is None else str(n) for n in shape)
        raise InputError(field, f"a two-dimensional array of shape {want}", f"shape {array.shape}")
    return array


def check_finite(a: Matrix, field: str) -> float:
    """Return the sum of magnitudes in ``a`` (zero only if all are) after making sure that every entry is finite."""
    total = float(dasum(a.ravel(order="K"))) if a.size else 0.0
    if not np.isfinite(total) and not np.isfinite(a).all():
        bad = tuple(int(i) for i in np.argwhere(~np.isfinite(a))[0])
        raise InputError(field, "finite everywhere", f"{a[bad]} at {bad}")
    return total


def check_symmetric(a: Matrix, field: str) -> None:
    """Refuse a gram whose asymmetry roundoff does not explain (tile by tile, which is what caches like)."""
    d = a.shape[0]
    # Reading a tile by columns from power-of-two rows thrashes the cache: copy it out by rows first.
    buffer = np.empty((min(_TILE, d), min(_TILE, d) + 8))
    for i in range(0, d, _TILE):
        for j in range(0, i + 1, _TILE):
            below = a[i : i + _TILE, j : j + _TILE]
            mirror = buffer[: below.shape[1], : below.shape[0]]
            np.copyto(mirror, a[j : j + _TILE, i : i + _TILE])
            above = mirror.T
            if (below == above).all():
                continue
            gap = float(np.abs(below - above).max())
            allowed = SYMMETRY_TOLERANCE * extent(a)
            if gap > allowed:
                raise InputError(field, f"symmetric to within {allowed:.3g} (roundoff)", f"an asymmetry of {gap:.3g}")


def as_features(value: Any, d: int | None = None, field: str = "features") -> Matrix:
    """Return a non-empty batch of finite feature rows as float64 (n x d); accepts any real dtype."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise InputError(field, "a real numeric array", f"dtype {array.dtype}")
    if array.ndim != 2 or (d is not None and array.shape[1] != d):
        raise InputError(field, f"a two-dimensional array of shape rows x {d or 'any'}", f"shape {array.shape}")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise InputError(field, "at least one row and one column", f"an empty batch of shape {array.shape}")
    rows: Matrix = np.asarray(array, dtype=np.float64)
    check_finite(rows, field)
    return rows


def as_labels(value: Any, rows: int, classes: int, field: str = "labels") -> NDArray[np.intp]:
    """Return one class index per row, each in ``range(classes)``."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise InputError(field, "integer class indices", f"dtype {array.dtype}")
    if array.shape != (rows,):
        raise InputError(field, f"a one-dimensional array of {rows} labels, one per row", f"shape {array.shape}")
    if rows and (int(array.min()) < 0 or int(array.max()) >= classes):
        raise InputError(field, f"in 0 to {classes - 1}", f"labels from {array.min()} to {array.max()}")
    return array.astype(np.intp, copy=False)


def as_name(client: object) -> str:
    """Return a client's name, which is one short line of text: rules save it, receipts and reports print it."""
    if not isinstance(client, str) or not client or len(client) > _LONGEST_NAME or not client.isprintable():
        raise InputError("client", f"a printable string of 1 to {_LONGEST_NAME} characters", repr(client))
    return client
