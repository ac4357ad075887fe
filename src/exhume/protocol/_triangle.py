"""The one factor of a gram that tells what the gram tells: rows turned into echelon form with positive pivots."""

from __future__ import annotations

import numpy as np

from exhume.numerics import Matrix, Rows

__all__ = ["triangular"]

_UNIT = 2.0**-53


def triangular(rows: Matrix) -> Matrix:
    """Return R in row echelon form with positive pivots and ``R'R = F'F``: the QR factor of the rows F (b x d).

    Every ``Q F`` with orthogonal Q has the same R, up to roundoff: R is a function of the gram, and who gets it learns
    nothing of the rows that the gram does not tell. Plain QR has that property only where the leading columns are
    independent; features that are zero in many columns (ReLU) are not, so dependent columns are passed over. R has at
    most as many rows as the rank of F, one less for each dependency that is exact up to roundoff.
    """
    live = np.flatnonzero(rows.any(axis=0))
    packed = rows[:, live]
    if len(packed) > 1 and packed.size:
        upper: Matrix = np.asarray(np.linalg.qr(packed, mode="r"))
        sizes = np.sqrt(np.einsum("ij,ij->j", upper, upper))
        allowed = 16 * len(rows) * _UNIT * sizes
        pivots = np.arange(len(upper))
        if not (np.abs(np.diagonal(upper)) > allowed[: len(upper)]).all():
            upper, pivots = _echelon(upper, allowed)
        packed = upper * np.sign(upper[np.arange(len(upper)), pivots])[:, None]
    elif packed.size:
        packed = packed * np.sign(packed[0, 0])
    else:
        packed = packed[:0]
    made = np.zeros((len(packed), rows.shape[1]))
    made[:, live] = packed
    return made


def _echelon(upper: Matrix, allowed: Matrix) -> tuple[Matrix, Rows]:
    """Return the row echelon form by Householder reflections, and the columns of its pivots.

    What is left of a column below the rows that are done, where it is no more than ``allowed``, is roundoff and zero.
    """
    work, start = upper.copy(), 0
    pivots: list[int] = []
    while len(pivots) < len(work) and start < work.shape[1]:
        done = len(pivots)
        rest = work[done:, start:]
        found = np.flatnonzero(np.sqrt(np.einsum("ij,ij->j", rest, rest)) > allowed[start:])
        if not len(found):
            break
        rest[:, : found[0]] = 0.0
        start += int(found[0])
        rest = work[done:, start:]
        head = rest[:, 0].copy()
        size = float(np.linalg.norm(head))
        head[0] += np.copysign(size, head[0])
        rest -= np.outer(head, (2.0 / float(head @ head)) * (head @ rest))
        rest[1:, 0] = 0.0
        pivots.append(start)
        start += 1
    return work[: len(pivots)], np.array(pivots, dtype=np.intp)
