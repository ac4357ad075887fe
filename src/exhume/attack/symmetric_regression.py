"""The symmetric matrix that explains a stack of answers best: ``X = H Z`` with noise of known size on X.

Symmetry ties the two entries of each pair together, which leaves an equation of its own for every pair: what no
symmetric H can explain. :mod:`exhume.attack.estimate.stitched` reads other people's changes from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import svd

from exhume.numerics import Matrix, Rows, symmetric

__all__ = ["SymmetricRegression"]


@dataclass(frozen=True, repr=False)
class SymmetricRegression:
    """The scaled stack of known sides by its singular values: symmetric regression on it, and what that leaves."""

    U: Matrix
    s: Matrix
    V: Matrix
    row: Matrix
    column: Matrix
    kept: int

    @classmethod
    def of(cls, Z: Matrix, row: Matrix, column: Matrix) -> SymmetricRegression:
        """Return the regression on a known stack, given the noise of the answers' rows and columns."""
        d, kept = Z.shape
        scaled = Z * row[:, None] / column
        if scaled.shape[1] < d:
            scaled = np.hstack([scaled, np.zeros((d, d - scaled.shape[1]))])
            column = np.concatenate([column, np.ones(d - len(column))])
        U, s, Vt = svd(scaled, full_matrices=True, check_finite=False)
        return cls(U, np.where(s > 1e-14 * s[0], s, 0.0), Vt.T, row, column, kept)

    def left(self, vectors: Matrix) -> Matrix:
        """Return left factors in the scaled basis."""
        return np.asarray(self.U.T @ (vectors / self.row[:, None]))

    def right(self, vectors: Matrix) -> Matrix:
        """Return right factors (N x k) in the scaled basis."""
        scaled = vectors / self.column[: self.kept, None]
        return np.asarray(self.V[: self.kept].T @ scaled)

    def whole(self, X: Matrix) -> Matrix:
        """Return a stack in the scaled basis (d x N)."""
        return self.left(X) / self.column[: self.kept] @ self.V[: self.kept]

    def back(self, C: Matrix) -> Matrix:
        """Return a stack in this basis as it was."""
        stack: Matrix = (self.U @ C @ self.V.T) * self.row[:, None] * self.column
        return stack[:, : self.kept]

    def symmetric_part(self, C: Matrix) -> Matrix:
        """Return the symmetric H with the least weighted ``|X - H Z|``; zero where nothing was read."""
        d, s = len(self.s), self.s
        B = C[:, :d] * s
        size = s[:, None] ** 2 + s[None, :] ** 2
        inner = np.divide(B + B.T, size, out=np.zeros((d, d)), where=size > 0)
        half = self.U * self.row[:, None]
        return symmetric(half @ inner @ half.T)

    def skew(self, C: Matrix) -> Matrix:
        """Return what no symmetric H explains of a stack's first d columns in this basis: one number a pair i < j."""
        s, (i, j) = self.s, self.pairs
        return np.asarray((s[i] * C[i, j] - s[j] * C[j, i]) * self.weight)

    def skew_of(self, a: Matrix, b: Matrix) -> Matrix:
        """Return the same for the rank-one stack ``a b'``."""
        s, (i, j) = self.s, self.pairs
        sa = s * a
        return np.asarray((sa[i] * b[j] - sa[j] * b[i]) * self.weight)

    @cached_property
    def pairs(self) -> tuple[Rows, Rows]:
        """All i < j."""
        return np.triu_indices(len(self.s), 1)

    @cached_property
    def weight(self) -> Matrix:
        """``1 / |(s_i, s_j)|`` for all pairs; zero for a pair that was never read."""
        size = np.hypot(self.s[self.pairs[0]], self.s[self.pairs[1]])
        return np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)

    def misfit(self, C: Matrix) -> float:
        """Return the root mean square of what no symmetric H explains of a stack in this basis, in units of rounding.

        Symmetry costs a pair's two numbers one, so ``d (d - 1) / 2`` numbers are left of the first d columns.
        """
        d = len(self.s)
        left = float(np.sum(self.skew(C) ** 2) + np.sum(C[:, d:] ** 2))
        return float(np.sqrt(left / max(d * (d - 1) // 2 + C[:, d:].size, 1)))
