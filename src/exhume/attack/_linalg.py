"""Linear algebra of stacks: one QR per stack, extreme singular values by Lanczos, no explicit inverse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh, svd, svdvals
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dgeqrf, dormqr, dpotrf, dpotrs, dtrtrs
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from exhume.numerics import Matrix, Rows, relative, symmetric

__all__ = ["SingleEntries", "StackFactor", "factor_stack", "relative_asymmetry", "smallest_eigenvalue"]

_LANCZOS_FROM = 64  # below this size a full decomposition is cheaper than setting up the iteration
_RITZ_TOLERANCE = 1e-6  # of the residual: the error of a Ritz value is of its square


def relative_asymmetry(a: Matrix) -> float:
    """Return ``|a - a'| / |a|``."""
    return relative(a - a.T, a)


def _largest(apply: LinearOperator) -> float:
    """Return the largest eigenvalue of a positive operator by Lanczos from a fixed start."""
    start = np.cos(np.arange(1, apply.shape[0] + 1, dtype=np.float64))
    return float(eigsh(apply, k=1, which="LA", v0=start, return_eigenvectors=False, tol=_RITZ_TOLERANCE)[0])


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
        packed, tau, _, info = dgeqrf(np.ascontiguousarray(stack).T.copy(order="F"), overwrite_a=1)
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
        if self.d >= _LANCZOS_FROM and diagonal.min() > tolerance * diagonal.max():
            try:
                return self._extremes(triangle, tolerance)
            except (ArpackError, ArpackNoConvergence, _NotFullRankError):
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

        shape = (self.d, self.d)
        top = np.sqrt(_largest(LinearOperator(shape, matvec=forward, dtype=np.float64)))
        low = 1.0 / np.sqrt(_largest(LinearOperator(shape, matvec=inverse, dtype=np.float64)))
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

    _columns: Rows
    _values: Matrix
    _width: int

    def singular_values(self, tolerance: float) -> tuple[float, float, int]:
        """Return the largest and smallest singular value and the numerical rank of the stack."""
        sizes = np.abs(self._values)
        return float(sizes.max()), float(sizes.min()), int(np.count_nonzero(sizes > tolerance * sizes.max()))

    def right_divide(self, rhs: Matrix) -> tuple[Matrix, float]:
        """Return ``rhs @ pinv(stack)`` and the Frobenius norm of ``result @ stack - rhs``."""
        answer = rhs[:, self._columns] / self._values
        inside = answer * self._values - rhs[:, self._columns]
        free = np.ones(self._width, dtype=bool)
        free[self._columns] = False
        return answer, float(np.hypot(np.linalg.norm(inside), np.linalg.norm(rhs[:, free])))


def factor_stack(stack: Matrix) -> StackFactor | SingleEntries:
    """Factor a d x N stack by QR, unless it can be read off."""
    if np.count_nonzero(stack) == len(stack):
        rows, columns = np.nonzero(stack)
        if len(np.unique(rows)) == len(np.unique(columns)) == len(stack):
            return SingleEntries(columns, stack[rows, columns], stack.shape[1])
    return StackFactor.of(stack)


def smallest_eigenvalue(a: Matrix) -> float:
    """Return the smallest eigenvalue of a symmetric matrix; by inverse Lanczos if it is positive definite."""
    if len(a) >= _LANCZOS_FROM:
        factor, info = dpotrf(a.copy(order="F"), lower=1, clean=0, overwrite_a=1)
        if info == 0:

            def inverse(x: Matrix) -> Matrix:
                return np.asarray(dpotrs(factor, x, lower=1)[0])

            try:
                return 1.0 / _largest(LinearOperator(a.shape, matvec=inverse, dtype=np.float64))
            except (ArpackError, ArpackNoConvergence):
                pass
    return float(eigvalsh(a, subset_by_index=[0, 0], check_finite=False)[0])
