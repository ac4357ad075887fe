"""A head that follows changes of low rank from one kept Cholesky factor.

Let ``A0 = L L'`` be the matrix that was factored and ``A = A0 + R' diag(s) R`` the present one. For each change in turn
keep ``V = A^-1 R'`` of the matrix before it. Then (Sherman, Morrison, Woodbury) with ``T = diag(s) + R V``

    A_after^-1 = A^-1 - V T^-1 V',    A_after^-1 R' = V T^-1 diag(s),

so that a solve costs two triangular solves with L and products with what is pending. ``A_after`` is positive definite
if and only if T has as many negative eigenvalues as s (Haynsworth's inertia).

The head follows: ``W_after = W + A_after^-1 (g - R' diag(s) R W)`` for a change g of the moment. Where g is in the span
of the rows, as that of true rows is, ``A_after^-1 R'`` is all that it takes. Whatever was lost on the way shows in the
residual, which is computed anew from the totals after every change. One step of refinement is made if it is above
`BACKWARD`; if that does not bring it down, the factor is made anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrs

from exhume.numerics import Matrix
from exhume.protocol.summary import Summary

__all__ = ["BACKWARD", "SHARE", "FollowedHead", "PendingRows"]

BACKWARD = 2.0**-52
"""Largest backward error of a head that follows: ``|G - A W| <= BACKWARD (|A| |W| + |G|)`` in Frobenius norms."""

SHARE = 8
"""The factor is made anew when the pending rank would pass d over this: products with it stay below the solves."""

_LEAST = 2.0**-26
"""Smallest eigenvalue of T, relative to 1, that is trusted: below, half of all digits are gone."""

_IN_SPAN = 2.0**-40
"""Part of a moment outside the span of the rows up to which the rows are tried alone; the residual decides."""


@dataclass(frozen=True, eq=False)
class PendingRows:
    """Changes of the gram since it was factored. Immutable."""

    rows: Matrix
    signs: Matrix
    solved: Matrix
    """``V`` of each change (d x rank)."""
    middle: Matrix
    """``T^-1`` of each change, along the diagonal."""
    trace: float = 0.0
    """What the changes add to the trace of the gram."""
    taken: float = 0.0
    """The squared lengths of the rows that were taken away: by no more can a norm have fallen."""

    @classmethod
    def nothing(cls, d: int) -> PendingRows:
        """Return no change."""
        return cls(np.zeros((0, d)), np.zeros(0), np.zeros((d, 0)), np.zeros((0, 0)))

    @property
    def rank(self) -> int:
        """How many rows are pending."""
        return len(self.rows)

    def solve(self, lower: Matrix, right: Matrix) -> Matrix:
        """Return ``A^-1 right`` from the kept factor L."""
        found: Matrix = dpotrs(lower, right, lower=1)[0]
        return found - self.solved @ (self.middle @ (self.solved.T @ right)) if self.rank else found

    def times(self, right: Matrix) -> Matrix:
        """Return what the changes add to ``S right``."""
        return np.asarray(self.rows.T @ (self.signs[:, None] * (self.rows @ right)))

    def joined(self, lower: Matrix, rows: Matrix, signs: Matrix) -> PendingRows | None:
        """Return the changes with one more, or None where it may leave no positive definite matrix."""
        solved = self.solve(lower, np.asfortranarray(rows.T))
        inner = rows @ solved
        turned = 0.5 * (inner + inner.T) + np.diag(signs)
        if not np.isfinite(turned).all():
            return None
        values = np.linalg.eigvalsh(turned)
        if not (np.abs(values).min() > _LEAST and int((values < 0).sum()) == int((signs < 0).sum())):
            return None
        old, new, squares = self.rank, len(rows), np.einsum("ij,ij->i", rows, rows)
        middle = np.zeros((old + new, old + new))
        middle[:old, :old], middle[old:, old:] = self.middle, np.linalg.inv(turned)
        return PendingRows(
            np.concatenate([self.rows, rows]),
            np.concatenate([self.signs, signs]),
            np.concatenate([self.solved, solved], axis=1),
            middle,
            self.trace + float(squares @ signs),
            self.taken + float(squares[signs < 0].sum()),
        )

    def band(self, which: slice) -> Matrix:
        """Return some rows of what the changes add to the gram."""
        return np.asarray((self.signs[:, None] * self.rows[:, which]).T @ self.rows)

    def square_beside(self, gram: Matrix) -> float:
        """Return what the changes add to the squared Frobenius norm of the gram."""
        cross = np.einsum("i,ij,ij->", self.signs, self.rows, self.rows @ gram)
        return 2.0 * float(cross) + float(self.signs @ (self.rows @ self.rows.T) ** 2 @ self.signs)

    def followed(
        self, lower: Matrix, product: Callable[[Matrix], Matrix], head: Matrix, net: Summary, moment: Matrix
    ) -> FollowedHead | None:
        """Return the head after one more change, not yet tested; None where it may leave no positive definite matrix.

        ``product`` multiplies with the matrix that was factored, ``moment`` is that after the change.
        """
        pending: PendingRows | None = self
        if net.factor is not None and net.signs is not None and not net.gram_is_zero:
            pending = self.joined(lower, net.factor, net.signs)
        if pending is None:
            return None
        weights = pending._moved(lower, head, net.moment, pending.rank - self.rank)
        return FollowedHead(pending, lower, product, weights, moment)

    def _moved(self, lower: Matrix, head: Matrix, change: Matrix, last: int) -> Matrix:
        """Return the head after the last ``last`` rows, from the head before them and the change of the moment."""
        rows, signs = self.rows[self.rank - last :], self.signs[self.rank - last :]
        inside = np.linalg.lstsq(rows @ rows.T, rows @ change, rcond=None)[0] if last else np.zeros((0, head.shape[1]))
        outside = change - rows.T @ inside
        along = inside - signs[:, None] * (rows @ head)
        if np.linalg.norm(outside) > _IN_SPAN * np.linalg.norm(change):
            return head + self.solve(lower, outside + rows.T @ along)
        step = self.middle[self.rank - last :, self.rank - last :] @ (signs[:, None] * along)
        return np.asarray(head + self.solved[:, self.rank - last :] @ step)


@dataclass(frozen=True, eq=False)
class FollowedHead:
    """A head that followed a change, and the equation that it must solve."""

    pending: PendingRows
    lower: Matrix
    product: Callable[[Matrix], Matrix]
    weights: Matrix
    moment: Matrix

    def within(self, size: float) -> tuple[PendingRows, Matrix] | None:
        """Return what is pending now and the head, refined once if need be; None if it stays above `BACKWARD`.

        ``size`` is a number no larger than the Frobenius norm of A.
        """
        weights = self.weights
        for refined in (False, True):
            rest = self.moment - (self.product(weights) + self.pending.times(weights))
            allowed = size * float(np.linalg.norm(weights)) + float(np.linalg.norm(self.moment))
            if float(np.linalg.norm(rest)) <= BACKWARD * allowed:
                weights = np.ascontiguousarray(weights)
                weights.flags.writeable = False
                return self.pending, weights
            if not refined:
                weights = weights + self.pending.solve(self.lower, rest)
        return None
