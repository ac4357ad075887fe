"""Linear algebra of stacks: one QR per stack, extreme singular values by Lanczos, no explicit inverse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import eigvalsh, svd, svdvals
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dgeqrf, dgeqrf_lwork, dormqr, dpotrf, dpotri, dpotrs, dtrtrs

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
    "relative_asymmetry",
    "smallest_eigenvalue",
]

_TILE = 512  # rows and columns of a square that is gone through piece by piece


def relative_asymmetry(a: Matrix) -> float:
    """Return ``|a - a'| / |a|``."""
    return relative(a - a.T, a)


@dataclass(frozen=True, repr=False)
class StackFactor:
    """The QR factorisation of a transposed stack: ``stack' = Q R`` with the stack d x N, N >= d."""

    _packed: Matrix
    _tau: Matrix
    d: int

    @classmethod
    def of(cls, stack: Matrix) -> StackFactor:
        """Factor a d x N stack."""
        d, columns = stack.shape
        if columns < d:  # rows of zeros change neither singular values nor the least-squares solution
            stack = np.hstack([stack, np.zeros((d, d - columns))])
        body = np.ascontiguousarray(stack).T.copy(order="F")
        # Without a workspace of the size that LAPACK asks for it works column by column, several times slower.
        space = int(dgeqrf_lwork(*body.shape)[0])
        packed, tau, _, info = dgeqrf(body, lwork=space, overwrite_a=1)
        if info != 0:  # pragma: no cover - dgeqrf only reports illegal arguments
            raise np.linalg.LinAlgError(f"dgeqrf: info = {info}")
        return cls(packed, tau, d)

    @property
    def triangle(self) -> Matrix:
        """The triangular factor R (d x d)."""
        return np.triu(self._packed[: self.d])

    def singular_values(self, tolerance: float) -> tuple[float, float, int]:
        """Return the largest and smallest singular value and the numerical rank of the stack.

        The full set is computed only when the smallest cannot settle full rank.
        """
        triangle = np.asfortranarray(self.triangle)
        diagonal = np.abs(np.diag(triangle))
        if self.d >= LANCZOS_FROM and diagonal.min() > tolerance * diagonal.max():
            try:
                return self._extremes(triangle, tolerance)
            except (np.linalg.LinAlgError, _NotFullRankError):
                pass
        values = svdvals(triangle, check_finite=False)
        rank = int(np.count_nonzero(values > tolerance * values[0])) if values[0] > 0 else 0
        return float(values[0]), float(values[-1]), rank

    def _extremes(self, triangle: Matrix, tolerance: float) -> tuple[float, float, int]:
        def forward(x: Matrix) -> Matrix:
            y: Matrix = triangle.T @ (triangle @ x)
            return y

        def inverse(x: Matrix) -> Matrix:
            y, _ = dtrtrs(triangle, x, trans=1)
            z, _ = dtrtrs(triangle, y)
            return np.asarray(z)

        top = np.sqrt(largest_eigenvalue(forward, self.d))
        low = 1.0 / np.sqrt(largest_eigenvalue(inverse, self.d))
        if not low > tolerance * top:
            raise _NotFullRankError
        return float(top), float(low), self.d

    def rotate(self, rhs: Matrix) -> Matrix:
        """Return ``Q' rhs'`` (N x rows of rhs): its first d rows are what the stack can explain."""
        columns = self._packed.shape[0]
        padded = rhs if rhs.shape[1] == columns else np.hstack([rhs, np.zeros((len(rhs), columns - rhs.shape[1]))])
        body = np.ascontiguousarray(padded).T.copy(order="F")
        size = dormqr("L", "T", self._packed, self._tau, body, -1)[1][0]
        turned, _, _ = dormqr("L", "T", self._packed, self._tau, body, int(size), overwrite_c=1)
        return np.asarray(turned)

    def right_divide(self, rhs: Matrix) -> tuple[Matrix, float]:
        """Return ``rhs @ pinv(stack)`` (full row rank) and the Frobenius norm of ``result @ stack - rhs``."""
        turned = self.rotate(rhs)
        top = np.asfortranarray(turned[: self.d])
        packed = np.asfortranarray(self._packed[: self.d])
        answer, info = dtrtrs(packed, top)
        if info != 0:
            raise np.linalg.LinAlgError(f"the stack's triangular factor has a zero on its diagonal ({info})")
        inside = dtrmm(1.0, packed, answer) - top
        outside = turned[self.d :]
        return np.ascontiguousarray(answer.T), float(np.hypot(np.linalg.norm(inside), np.linalg.norm(outside)))

    def right_divide_symmetric(self, rhs: Matrix) -> Matrix:
        """Return the symmetric M with the least ``|M @ stack - rhs|_F``.

        With ``stack = U s V'`` and ``C = U' rhs V`` it is, in the basis U, ``(C_ij s_j + s_i C_ji) / (s_i^2 + s_j^2)``.
        """
        vectors, values, right = svd(self.triangle.T, check_finite=False)
        C = vectors.T @ self.rotate(rhs)[: self.d].T @ right.T
        B = C * values
        inner = (B + B.T) / (values[:, None] ** 2 + values[None, :] ** 2)
        return symmetric(vectors @ inner @ vectors.T)


class _NotFullRankError(Exception):
    pass


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
        answer = rhs[:, self.columns] / self.values
        inside = answer * self.values - rhs[:, self.columns]
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
    if np.count_nonzero(stack) == len(stack):
        rows, columns = np.nonzero(stack)
        if len(np.unique(rows)) == len(np.unique(columns)) == len(stack):
            return SingleEntries(columns, stack[rows, columns], stack.shape[1])
    return StackFactor.of(stack)


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
