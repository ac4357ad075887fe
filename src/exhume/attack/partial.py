"""What a rank-deficient run still determines: A on the span of the responses, all of it but one corner block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from exhume.attack._linalg import RANK_TOLERANCE, Matrix, symmetric
from exhume.attack.transcript import Transcript
from exhume.protocol.head import Head

__all__ = ["PartialSample", "PartialState", "identify_partial", "partial_sample"]


@dataclass(frozen=True)
class PartialState:
    """A state known on an r-dimensional subspace: ``A U`` is determined, ``(I - UU') A (I - UU')`` is not."""

    basis: Matrix
    """Orthonormal basis U of the span of X (d x r)."""
    image: Matrix
    """``A U`` (d x r)."""
    baseline: Head

    @property
    def rank(self) -> int:
        """How many dimensions are known."""
        return int(self.basis.shape[1])

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return int(self.basis.shape[0])

    @property
    def known_share(self) -> float:
        """The share of A's d(d+1)/2 free entries that is determined."""
        free = self.d - self.rank
        return 1.0 - free * (free + 1) / (self.d * (self.d + 1))

    def completed(self, corner: Matrix | None = None) -> Matrix:
        """Return A with its unknown corner taken from ``corner`` (a d x d guess), or zero."""
        U, K = self.basis, self.image
        inner = symmetric(U.T @ K)
        cross = K - U @ (U.T @ K)
        A = U @ inner @ U.T + cross @ U.T + U @ cross.T
        if corner is not None:
            rest = corner - U @ (U.T @ corner)
            A = A + rest - (rest @ U) @ U.T
        return symmetric(A)


def identify_partial(transcript: Transcript, *, tolerance: float = RANK_TOLERANCE) -> PartialState:
    """Return what a run of any rank determines: with ``X = U s V'`` of rank r, ``A U = Z V s^-1``."""
    U, s, Vt = svd(transcript.X, full_matrices=False, check_finite=False)
    r = int(np.count_nonzero(s > tolerance * s[0])) if s.size and s[0] > 0 else 0
    return PartialState(U[:, :r], (transcript.Z @ Vt[:r].T) / s[:r], transcript.baseline)


@dataclass(frozen=True)
class PartialSample:
    """The part of one deleted record that a partial state determines, up to one common scale."""

    inside: Matrix
    """Coordinates ``U' f`` in the known subspace, up to scale."""
    direction: Matrix
    """The feature's direction in all d dimensions; its part outside the subspace rests on the corner guess."""
    right: Matrix
    """The right vector, proportional to ``e_k - W_post' f``: determined whatever the rank."""
    outside_share: float
    """The share of ``A^-1 f`` that lies outside the known subspace: what the guess had to stand in for."""


def partial_sample(state: PartialState, after: Head, *, corner: Matrix | None = None) -> PartialSample:
    """Recover one deleted record as far as the span allows.

    The head's change is ``(A^-1 f) r'`` exactly, so its right vector and ``h = A^-1 f`` are seen at any rank, and
    ``U' f = (A U)' h`` is determined. Outside the subspace, f needs the corner of A.
    """
    left, values, right = svd(state.baseline.weights - after.weights, full_matrices=False, check_finite=False)
    h = left[:, 0] * values[0]
    U, K = state.basis, state.image
    inside = K.T @ h
    rest = h - U @ (U.T @ h)
    g = K @ (U.T @ h)
    if corner is not None:
        g = g + corner @ rest
    direction = U @ inside + g - U @ (U.T @ g)
    size = float(np.linalg.norm(h))
    return PartialSample(inside, direction, right[0], float(np.linalg.norm(rest)) / size if size > 0 else 0.0)
