"""The dyadic grid of the bit-exact mode.

On a grid of step g = 2**-k every feature is an integer multiple of g, every product of two features one of g**2, and
float64 adds integers without error below 2**53. A gram whose diagonal stays below 2**53 g**2 therefore comes out the
same, bit for bit, whatever the order of rows, messages and BLAS kernels (off-diagonal partial sums are bounded by the
diagonal).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from exhume.errors import HeadroomError, InputError
from exhume.numerics import Matrix
from exhume.protocol._checks import as_features, extent
from exhume.protocol.summary import Summary, Update

__all__ = ["as_grid", "check_on_grid", "check_room", "headroom", "rows_left", "snap"]

_LIMIT = 2.0**53


def as_grid(grid: float) -> float:
    """Return a grid step that is a power of two between 2**-40 and 1."""
    mantissa, exponent = math.frexp(grid)
    if mantissa != 0.5 or not -40 <= exponent - 1 <= 0:
        raise InputError("grid", "a power of two from 2**-40 to 1", grid)
    return float(grid)


def snap(features: Any, grid: float | None) -> Matrix:
    """Round features to the nearest multiples of the grid step (unchanged without a grid)."""
    rows = as_features(features)
    return rows if grid is None else np.rint(rows / grid) * grid


def _steps(summary: Summary, grid: float) -> tuple[tuple[str, Matrix], tuple[str, Matrix]]:
    return ("gram", summary.gram / grid**2), ("moment", summary.moment / grid)


def _factor_steps(summary: Summary, grid: float) -> tuple[tuple[str, Matrix], ...] | None:
    """Return what stands for all steps of a factor on the grid: its entries, and the diagonal, the largest sums.

    The factor of one row is that row or its negative. That of more rows is hardly ever on the grid, their gram is.
    """
    if summary.factor is None or not summary.is_square:
        return None
    rows = summary.factor / grid
    if not np.array_equal(np.rint(rows), rows):
        return None
    return ("factor", rows), ("gram", summary.diagonal() / grid**2), ("moment", summary.moment / grid)


def check_on_grid(update: Update, grid: float) -> None:
    """Refuse an update that is not made of whole grid steps."""
    for side, summary in (("add", update.add), ("delete", update.delete)):
        for name, steps in _factor_steps(summary, grid) or _steps(summary, grid):
            if not np.array_equal(np.rint(steps), steps):
                raise InputError(
                    f"{side}.{name}",
                    f"on the ledger's grid of {grid} (use snap)",
                    "values between grid points",
                )
            if extent(steps) >= _LIMIT:
                raise HeadroomError(f"{side}.{name}", f"below 2**53 = {_LIMIT:.0f} grid steps", f"{extent(steps):.0f}")


def check_room(after: Summary, grid: float) -> None:
    """Refuse totals that float64 could not hold exactly."""
    for name, steps in _steps(after, grid):
        if extent(steps) >= _LIMIT:
            raise HeadroomError(
                f"total {name}",
                f"below 2**53 = {_LIMIT:.0f} grid steps after the update",
                f"{extent(steps):.0f}",
            )


def headroom(grid: float) -> float:
    """Return what no entry of a gram may reach on a grid."""
    return _LIMIT * grid**2


def rows_left(total: Summary, grid: float, largest: float) -> int:
    """Return how many further rows with entries up to ``largest`` surely fit below 2**53 grid steps."""
    step = max(math.ceil(largest / grid), 1)
    gram = (_LIMIT - 1 - extent(total.gram) / grid**2) // step**2
    moment = (_LIMIT - 1 - extent(total.moment) / grid) // step
    return max(int(min(gram, moment)), 0)
