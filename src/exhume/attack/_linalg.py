"""Linear algebra of stacks: one QR per stack, extreme singular values by Lanczos, no explicit inverse."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import eigvalsh, svd, svdvals
from scipy.linalg.blas import dgemm, dtrmm, dtrmv, dtrsm, dtrsv
from scipy.linalg.lapack import dgemqrt, dgeqrt, dpotrf, dpotri, dpotrs, dtrtrs

from exhume.numerics import (
    DENOMINATOR_FLOOR,
    LANCZOS_FROM,
    Matrix,
    Rows,
    largest_eigenvalue,
    mirrored,
    relative,
    symmetric,
)

__all__ = [
    "Positive",
    "SingleEntries",
    "StackFactor",
    "diagonal",
    "factor_stack",
    "single_entries",
    "smallest_eigenvalue",
    "symmetric_part",
]

_TILE = 512  # rows and columns of a square that is gone through piece by piece

_REFLECTIONS = 48  # columns of a stack that are turned together

_SOLVED = 64  # columns of a right-hand side that are solved for together


def symmetric_part(a: Matrix) -> tuple[Matrix, float]:
    """Return the nearest symmetric matrix, and ``|a - a'| / |a|``."""
    # One of the two is a copy. To read a matrix across its rows is slow, and it is done once for both results.
    straight, turned = np.ascontiguousarray(a), np.ascontiguousarray(a.T)
    half = straight + turned
    half *= 0.5
    return half, relative(straight - turned, straight)


@dataclass(frozen=True, repr=False)
class StackFactor:
    """The QR factorisation of a transposed stack: ``stack' = Q R`` with the stack d x N, N >= d."""

    _packed: Matrix
    _turns: Matrix
    d: int

    @classmethod
    def of(cls, stack: Matrix) -> StackFactor:
        """Factor a d x N stack."""
        d, columns = stack.shape
        if columns < d:  # rows of zeros change neither singular values nor the least-squares solution
            stack = np.hstack([stack, np.zeros((d, d - columns))])
        body = np.ascontiguousarray(stack).T.copy(order="F")
        # It factors its panels by blocks, too: a fifth faster than dgeqrf, and so are products with its Q.
        packed, turns, info = dgeqrt(min(_REFLECTIONS, d), body, overwrite_a=1)
        if info != 0:  # pragma: no cover - dgeqrt only reports illegal arguments
            raise np.linalg.LinAlgError(f"dgeqrt: info = {info}")
        return cls(packed, turns, d)

    @cached_property
    def _upper(self) -> Matrix:
        """R in Fortran order; only its upper triangle is meaningful."""
        return np.asfortranarray(self._packed[: self.d])

    @property
    def triangle(self) -> Matrix:
        """The triangular factor R (d x d)."""
        return np.triu(self._packed[: self.d])

    def singular_values(self, tolerance: float) -> tuple[float, float, int]:
        """Return the largest and smallest singular value and the numerical rank of the stack.

        The full set is computed only when the smallest cannot settle full rank.
        """
        diagonal = np.abs(np.diag(self._upper))
        if self.d >= LANCZOS_FROM and diagonal.min() > tolerance * diagonal.max():
            try:
                return self._extremes(tolerance)
            except (np.linalg.LinAlgError, _NotFullRankError):
                pass
        values = svdvals(self.triangle, check_finite=False)
        rank = int(np.count_nonzero(values > tolerance * values[0])) if values[0] > 0 else 0
        return float(values[0]), float(values[-1]), rank

    def _extremes(self, tolerance: float) -> tuple[float, float, int]:
        def forward(x: Matrix) -> Matrix:
            return np.asarray(dtrmv(self._upper, dtrmv(self._upper, x), trans=1))

        def inverse(x: Matrix) -> Matrix:
            return np.asarray(dtrsv(self._upper, dtrsv(self._upper, x, trans=1)))

        top = np.sqrt(largest_eigenvalue(forward, self.d))
        low = 1.0 / np.sqrt(largest_eigenvalue(inverse, self.d))
        if not low > tolerance * top:
            raise _NotFullRankError
        return float(top), float(low), self.d

    def rotate(self, rhs: Matrix) -> Matrix:
        """Return ``rhs Q`` (rows of rhs x N): its first d columns are what the stack can explain."""
        body = np.zeros((len(rhs), self._packed.shape[0]), order="F")
        body[:, : rhs.shape[1]] = rhs
        turned, _ = dgemqrt(self._packed, self._turns, body, side="R", trans="N", overwrite_c=1)
        return np.asarray(turned)

    def right_divide(self, rhs: Matrix) -> tuple[Matrix, float]:
        """Return ``rhs @ pinv(stack)`` (full row rank) and the Frobenius norm of ``result @ stack - rhs``."""
        zeros = np.flatnonzero(np.diag(self._upper) == 0.0)
        if len(zeros):
            raise np.linalg.LinAlgError(f"the stack's triangular factor has a zero on its diagonal ({zeros[0] + 1})")
        turned = self.rotate(rhs)
        within, outside = turned[:, : self.d], turned[:, self.d :]
        answer = _over_triangle(within, self._upper)
        inside = dtrmm(1.0, self._upper, answer, side=1, trans_a=1)
        inside -= within
        return answer, float(np.hypot(np.linalg.norm(inside), np.linalg.norm(outside)))

    def right_divide_symmetric(self, rhs: Matrix) -> Matrix:
        """Return the symmetric M with the least ``|M @ stack - rhs|_F``.

        With ``stack = U s V'`` and ``C = U' rhs V`` it is, in the basis U, ``(C_ij s_j + s_i C_ji) / (s_i^2 + s_j^2)``.
        """
        vectors, values, right = svd(self.triangle.T, check_finite=False)
        C = vectors.T @ self.rotate(rhs)[:, : self.d] @ right.T
        B = C * values
        inner = (B + B.T) / (values[:, None] ** 2 + values[None, :] ** 2)
        return symmetric(vectors @ inner @ vectors.T)


class _NotFullRankError(Exception):
    pass


def _over_triangle(rhs: Matrix, upper: Matrix) -> Matrix:
    """Return ``rhs R'^-1``, block by block: OpenBLAS multiplies at twice the rate at which it solves."""
    answer = rhs.copy(order="F")
    d = len(upper)
    for start in reversed(range(0, d, _SOLVED)):
        end = min(start + _SOLVED, d)
        block = answer[:, start:end]  # in place: columns in Fortran order are one piece of memory
        if end < d:
            dgemm(-1.0, answer[:, end:], upper[start:end, end:], trans_b=1, beta=1.0, c=block, overwrite_c=1)
        dtrsm(1.0, upper[start:end, start:end], block, side=1, trans_a=1, overwrite_b=1)
    return answer


@dataclass(frozen=True, repr=False)
class SingleEntries:
    """A stack with one non-zero entry a row, all in different columns, as the designed probe's: nothing to factor."""

    columns: Rows
    """Where each row's entry is."""
    values: Matrix
    """The entries."""
    width: int

    def __matmul__(self, other: Matrix) -> Matrix:
        return np.asarray(self.values[:, None] * other[self.columns])

    @property
    def norm(self) -> float:
        """The Frobenius norm of the stack."""
        return float(np.linalg.norm(self.values))

    def singular_values(self, tolerance: float) -> tuple[float, float, int]:
        """Return the largest and smallest singular value and the numerical rank of the stack."""
        sizes = np.abs(self.values)
        return float(sizes.max()), float(sizes.min()), int(np.count_nonzero(sizes > tolerance * sizes.max()))

    def right_divide(self, rhs: Matrix) -> tuple[Matrix, float]:
        """Return ``rhs @ pinv(stack)`` and the Frobenius norm of ``result @ stack - rhs``."""
        taken = rhs[:, self.columns]
        answer = taken / self.values
        inside = answer * self.values - taken
        return answer, float(np.hypot(np.linalg.norm(inside), self._outside(rhs)))

    def right_divide_symmetric(self, rhs: Matrix) -> Matrix:
        """Return the symmetric M with the least ``|M @ stack - rhs|_F``."""
        return self.symmetric_quotient(rhs)[0]

    def symmetric_quotient(self, rhs: Matrix) -> tuple[Matrix, float, float]:
        """Return the symmetric M with the least ``|M @ stack - rhs|_F``, that norm, and the asymmetry of the plain one.

        Entry by entry ``(r_ij v_j + r_ji v_i) / (v_i^2 + v_j^2)`` with v the stack's entries and r the columns of rhs
        that they stand in. Tile by tile: nothing but the answer is as large as the stack.
        """
        d, v = len(self.values), self.values
        answer = np.empty((d, d))
        left = skew = size = 0.0
        for i in range(0, d, _TILE):
            for j in range(0, i + 1, _TILE):
                a, b = slice(i, i + _TILE), slice(j, j + _TILE)
                below, above = rhs[a, self.columns[b]], rhs[b, self.columns[a]].T
                tile = (below * v[b] + above * v[a, None]) / (v[a, None] ** 2 + v[b] ** 2)
                answer[a, b], answer[b, a] = tile, tile.T
                twice = 1.0 if i == j else 2.0
                left += _square(below - tile * v[b]) + (twice - 1.0) * _square(above - tile * v[a, None])
                skew += twice * _square(below / v[b] - above / v[a, None])
                size += _square(below / v[b]) + (twice - 1.0) * _square(above / v[a, None])
        outside = float(np.hypot(np.sqrt(left), self._outside(rhs)))
        return answer, outside, float(np.sqrt(skew) / max(np.sqrt(size), DENOMINATOR_FLOOR))

    def _outside(self, rhs: Matrix) -> float:
        """Return the Frobenius norm of what stands in columns of rhs that are zero in the stack."""
        free = np.ones(self.width, dtype=bool)
        free[self.columns] = False
        return float(np.linalg.norm(rhs[:, free]))


def diagonal(values: Matrix, width: int) -> Matrix:
    """Return a read-only stack with these values on its diagonal.

    Where they are all the same it is a view of one line of numbers: each row is that line, moved by one.
    """
    d = len(values)
    if not len(values) or np.ptp(values) != 0.0:
        made = np.zeros((d, width))
        made[np.arange(d), np.arange(d)] = values
        made.flags.writeable = False
        return made
    line = np.zeros(d - 1 + width)
    line[d - 1] = values[0]
    step = line.itemsize
    return np.asarray(as_strided(line[d - 1 :], (d, width), (-step, step), writeable=False))


def factor_stack(stack: Matrix) -> StackFactor | SingleEntries:
    """Factor a d x N stack by QR, unless it can be read off."""
    return single_entries(stack) or StackFactor.of(stack)


def single_entries(stack: Matrix) -> SingleEntries | None:
    """Return a stack by its entries, if there is one in each row, all in different columns."""
    found = []
    for i in range(0, len(stack), _TILE):
        entries = stack[i : i + _TILE] != 0.0
        if np.count_nonzero(entries) != len(entries) or not entries.any(axis=1).all():
            return None
        found.append(entries.argmax(axis=1))
    columns = np.concatenate(found)
    if len(np.unique(columns)) < len(stack):
        return None
    return SingleEntries(columns, stack[np.arange(len(stack)), columns], stack.shape[1])


class Positive:
    """A symmetric positive definite matrix ``a = L L'`` by its Cholesky factor L."""

    def __init__(self, factor: Matrix) -> None:
        self._factor = factor  # in Fortran order; only the lower triangle is meaningful

    @classmethod
    def of(cls, a: Matrix) -> Positive | None:
        """Factor a symmetric matrix; None if it is not positive definite."""
        # The transpose of a copy is the same matrix in Fortran order; to copy into that order takes ten times as long.
        factor, info = dpotrf(a.copy(order="C").T, lower=1, clean=0, overwrite_a=1)
        return cls(factor) if info == 0 else None

    def solve(self, rhs: Matrix) -> Matrix:
        """Return ``a^-1 rhs``."""
        if rhs.ndim == 1:  # dpotrs, which packs the factor anew each time, takes three times as long
            return np.asarray(dtrsv(self._factor, dtrsv(self._factor, rhs, lower=1), lower=1, trans=1))
        return np.asarray(dpotrs(self._factor, rhs, lower=1)[0])

    def whiten(self, columns: Matrix) -> Matrix:
        """Return ``L' columns``: its Frobenius norm is that of the columns in the metric a."""
        return np.asarray(dtrmm(1.0, self._factor, columns, lower=1, trans_a=1))

    def colour(self, columns: Matrix) -> Matrix:
        """Return ``L columns``."""
        return np.asarray(dtrmm(1.0, self._factor, columns, lower=1))

    def divide(self, columns: Matrix) -> Matrix:
        """Return ``L^-1 columns``: its Frobenius norm is that of the columns in the metric ``a^-1``."""
        return np.asarray(dtrtrs(self._factor, columns, lower=1)[0])

    def inverse(self) -> Matrix:
        """Return ``a^-1``, in the place of the factor, which is gone afterwards."""
        a, _ = dpotri(self._factor, lower=1, overwrite_c=1)
        del self._factor
        return mirrored(a.T)


def _square(a: Matrix) -> float:
    return float(np.vdot(a, a))


def smallest_eigenvalue(a: Matrix, factor: Positive | None = None) -> float:
    """Return the smallest eigenvalue of a symmetric matrix; by inverse Lanczos if it is positive definite."""
    if len(a) >= LANCZOS_FROM:
        known = factor or Positive.of(a)
        if known is not None:
            try:
                return 1.0 / largest_eigenvalue(known.solve, len(a))
            except np.linalg.LinAlgError:
                pass
    return float(eigvalsh(a, subset_by_index=[0, 0], check_finite=False)[0])
