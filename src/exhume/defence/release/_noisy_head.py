"""The head of a noisy gram, which may be singular or worse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dpftrf, dpftrs

from exhume.defence.release._packed import diagonal, whole
from exhume.numerics import Matrix

__all__ = ["FLOOR", "RIDGE", "solve"]

FLOOR = 0.5
"""Least pivot of the noisy gram in the measure's coordinates with which it is solved as it is.

Noise of a spread of 0.7 about the measure itself leaves none below it, from some 30 features on.
"""

RIDGE = 0.25
"""What is added to the diagonal first where a pivot is below."""

_RIDGES = 64
"""How often that is doubled, before something is not a number."""


def solve(gram: Matrix, moment: Matrix, again: Callable[[], Matrix]) -> tuple[Matrix, Matrix | None]:
    """Return ``(T + r I)^-1 R``, and beside it ``T + r I``, whole, where r is not 0.

    r is 0 where all pivots of T are at least `FLOOR`, else the first of `RIDGE`, twice that and so on with which they
    are: in a direction in which the totals are far below the measure T is mostly noise, and what solving brings into
    the head is too. T is public (noisy) already, so that r tells nothing. The packed triangle is overwritten, and made
    ``again`` where it must be.
    """
    made, kept = gram, None
    for ridge in (0.0, *(RIDGE * 2.0**i for i in range(_RIDGES))):
        if ridge:
            made = again()
            made[diagonal(len(moment))] += ridge
            kept = made.copy()
        factor, info = dpftrf(len(moment), made, uplo="L", overwrite_a=1)
        if info == 0 and float(factor[diagonal(len(moment))].min()) ** 2 >= FLOOR:
            solved = np.asarray(dpftrs(len(moment), factor, moment, uplo="L")[0])
            return solved, None if kept is None else whole(kept, len(moment))
    raise np.linalg.LinAlgError("no ridge makes the noisy gram positive definite")
