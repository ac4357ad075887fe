"""What several admission rules share: rows and roundoff of a summary, a short linear sketch, stacks of sketches."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf, dtrtrs

from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.options import HIDDEN
from exhume.protocol import Summary

__all__ = [
    "MOST_ROWS",
    "UNIT",
    "Sketch",
    "by_name",
    "content",
    "floor_of",
    "forgiven",
    "least_rows",
    "stacked",
    "unit",
    "whitened_moment",
]

UNIT = 2.0**-53
"""Unit roundoff of float64, in which honest clients sum their rows."""

MOST_ROWS = 2**16
"""Rows that a single honest message is taken to hold at most, where a rule is not told."""


def floor_of(summary: Summary, rows: int = MOST_ROWS, unit: float = UNIT) -> float:
    """Return how far roundoff can push an honest gram's eigenvalues below zero, as a factorisation sees them."""
    return forgiven(rows, summary.d, unit) * summary.trace


def forgiven(rows: int, d: int, unit: float = UNIT) -> float:
    """Return how far below zero an eigenvalue may come out, in traces, where so many rows were summed.

    A sum of n products errs by at most ``n u sqrt(S_ii S_jj)`` per entry, hence by ``n u trace(S)`` in any eigenvalue.
    The factorisation that looks for it is exact for a matrix that is ``(d + 1) u trace(S)`` away (Higham 2002, 10.3).
    """
    return (rows + d + 1) * unit


def whitened_moment(summary: Summary, floor: float) -> Matrix | None:
    """Return ``L^-1 G`` with ``L L' = S + floor I``, or None where that is not positive definite.

    Of a factored gram of half the full rank or less, another matrix with the same inner products is returned.
    With ``S = F'F`` and ``G = F'Y`` its columns' squared lengths, the diagonal of ``G' S^+ G``, are the fewest rows per
    class that can have made the moment: ``Y'PY`` for a projection P, equal to the class counts for independent rows.
    """
    d = summary.d
    if summary.is_square and 2 * summary.rank <= d:
        return _whitened_rows(summary, floor)
    # The transpose of a symmetric matrix in C order is that matrix in Fortran order: one straight copy.
    shifted = summary.gram.T.copy(order="F")
    shifted.flat[:: d + 1] += floor
    factor, info = dpotrf(shifted, lower=1, overwrite_a=1)
    if info != 0:
        return None
    white, _ = dtrtrs(factor, summary.moment, lower=1)
    return np.asarray(white)


def _whitened_rows(summary: Summary, floor: float) -> Matrix | None:
    """Return b + c rows with the inner products of ``L^-1 G``, from the factor R of b rows.

    ``G' (R'R + t I)^-1 G = (G - R'Z)' (G - R'Z) / t + Z'Z`` for the ridge solution ``(R R' + t I) Z = R G``: the sum of
    two squares, so that nothing cancels.
    """
    factor = summary.factor
    if factor is None or floor <= 0:
        return None
    inner = np.asfortranarray(factor @ factor.T)
    inner.flat[:: len(inner) + 1] += floor
    lower, info = dpotrf(inner, lower=1, overwrite_a=1)
    if info != 0:
        return None
    inside = dpotrs(lower, factor @ summary.moment, lower=1)[0] if len(factor) else np.zeros((0, summary.c))
    outside = np.linalg.qr((summary.moment - factor.T @ inside) / np.sqrt(floor), mode="r")
    return np.concatenate([inside, outside])


def least_rows(summary: Summary, floor: float | None = None) -> int:
    """Return the fewest rows that can have made a gram: its rank, by pivoted Cholesky down to roundoff."""
    if summary.gram_is_zero:
        return 0
    lowest = max(floor_of(summary) if floor is None else floor, np.finfo(float).tiny)
    # R R' has the eigenvalues of R'R that are not zero.
    factor = summary.factor if summary.is_square and 2 * summary.rank <= summary.d else None
    _, _, rank, _ = dpstrf(summary.gram if factor is None else factor @ factor.T, tol=lowest)
    return int(rank)


def content(summary: Summary) -> bytes:
    """Return the SHA-256 digest of a summary's size and numbers; -0.0 and 0.0 are the same number.

    The numbers are those that the wire carries: a factored gram's are its factor's.
    """
    parts: tuple[Matrix, ...] = (summary.moment,)
    if summary.factor is None or summary.signs is None:
        digest, parts = hashlib.sha256(b"exhume summary 1"), (summary.gram, *parts)
    else:
        digest, parts = hashlib.sha256(b"exhume summary 2"), (summary.factor, summary.signs, *parts)
        digest.update(np.array([len(summary.factor)], dtype="<i8").tobytes())
    digest.update(np.array([summary.d, summary.c], dtype="<i8").tobytes())
    for part in parts:
        digest.update((np.ascontiguousarray(part, dtype="<f8") + 0.0).tobytes())
    return digest.digest()


@dataclass(frozen=True)
class Sketch:
    """A secret linear map from summaries to short vectors: equal summaries have equal ones, sums have sums.

    Each number is ``u' S v`` or ``u' G w`` for Gaussian vectors, whose mean square is the squared Frobenius norm. A
    client that knew the vectors could make another summary with the same sketch: the seed is the server's secret.

    Parameters
    ----------
    d, c
        Size of the summaries.
    size
        Numbers kept of the gram, and as many of the moment.
    seed
        The secret; drawn if not given.
    """

    d: int
    c: int
    size: int = 32
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError("size", "at least 1", self.size)
        if self.seed is None:
            object.__setattr__(self, "seed", secrets.randbits(63))
        elif self.seed < 0:
            raise InputError("seed", "a whole number, at least 0", HIDDEN)
        rng = np.random.default_rng(self.seed)
        for name, width in (("_left", self.d), ("_right", self.d), ("_side", self.d), ("_columns", self.c)):
            object.__setattr__(self, name, rng.standard_normal((self.size, width)) / self.size**0.25)

    def gram(self, summary: Summary) -> Matrix:
        """Return the sketch of the gram; its length estimates the gram's Frobenius norm."""
        left: Matrix = self._left  # type: ignore[attr-defined]
        right: Matrix = self._right  # type: ignore[attr-defined]
        if summary.gram_is_zero:
            return np.zeros(self.size)
        return np.asarray((summary.times(left.T).T * right).sum(axis=1))

    def moment(self, summary: Summary) -> Matrix:
        """Return the sketch of the moment; its length estimates the moment's Frobenius norm."""
        side: Matrix = self._side  # type: ignore[attr-defined]
        columns: Matrix = self._columns  # type: ignore[attr-defined]
        return np.asarray(((side @ summary.moment) * columns).sum(axis=1))

    def __call__(self, summary: Summary) -> Matrix:
        """Return both sketches, one after the other."""
        return np.concatenate([self.gram(summary), self.moment(summary)])

    def rows(self, features: Matrix, labels: NDArray[np.intp]) -> Matrix:
        """Return the sketch of each row's own summary ``(f f', f e_k')``."""
        left, right, side, columns = (getattr(self, n) for n in ("_left", "_right", "_side", "_columns"))
        return np.hstack([(features @ left.T) * (features @ right.T), (features @ side.T) * columns[:, labels].T])

    def key(self, summary: Summary) -> Matrix:
        """Return both sketches at unit length, the moment's up to sign: the same for ``f``, ``-f`` and ``s f``."""
        moment = unit(self.moment(summary))
        turned = moment * np.sign(moment[np.abs(moment).argmax()] or 1.0)
        return np.concatenate([unit(self.gram(summary)), turned])


def unit(vector: Matrix) -> Matrix:
    """Return a vector at length one, and zero as it is."""
    size = float(np.linalg.norm(vector))
    return vector / size if size > 0 else vector


def stacked(vectors: Iterable[Matrix], width: int) -> Matrix:
    """Return vectors as the rows of one matrix, also if there are none."""
    rows = list(vectors)
    return np.array(rows, dtype=np.float64) if rows else np.empty((0, width))


def by_name(names: Iterable[str], rows: Matrix) -> dict[str, list[Matrix]]:
    """Return rows by the name that goes with each."""
    found: dict[str, list[Matrix]] = {}
    for name, row in zip(names, rows, strict=True):
        found.setdefault(name, []).append(row.copy())
    return found
