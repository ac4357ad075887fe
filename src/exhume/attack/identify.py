"""Identification of a hidden state from the stacks of a probe run (Theorem 1, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from exhume.attack._linalg import (
    DENOMINATOR_FLOOR,
    RANK_TOLERANCE,
    Matrix,
    SingleEntries,
    StackFactor,
    factor_stack,
    relative,
    relative_asymmetry,
    smallest_eigenvalue,
    symmetric,
)
from exhume.attack.transcript import Transcript
from exhume.errors import NotIdentifiedError
from exhume.protocol.head import Head

__all__ = ["Diagnostics", "State", "diagnose_rank", "identify"]


@dataclass(frozen=True)
class Diagnostics:
    """Every number that Algorithm 1 reports. For moment-only probes X is the paper's R and Z its Q."""

    d: int
    responses: int
    rank_X: int
    rank_Z: int
    sigma_max_X: float
    sigma_min_X: float
    sigma_max_Z: float
    sigma_min_Z: float
    tolerance: float
    e_AR: float | None = None
    """Relative residual of ``A X = Z``."""
    e_HQ: float | None = None
    """Relative residual of ``X = H Z``."""
    e_AH: float | None = None
    """Disagreement of the two independent estimates, ``|A H - I| / sqrt(d)``."""
    asymmetry_A: float | None = None
    asymmetry_H: float | None = None
    min_eigenvalue_A: float | None = None
    min_eigenvalue_H: float | None = None
    r_W: float | None = None
    """Relative head residual after cancellation; reported, never a criterion."""

    def require_full_rank(self) -> None:
        """Raise `NotIdentifiedError` with these numbers if either stack is rank deficient."""
        if self.rank_X < self.d or self.rank_Z < self.d:
            raise NotIdentifiedError(
                f"rank deficient: rank(X) = {self.rank_X}, rank(Z) = {self.rank_Z}, needed {self.d} "
                f"(tolerance {self.tolerance:g}, {self.responses} responses)",
                self,
            )

    @property
    def kappa_X(self) -> float:
        """Condition number of X; infinite if it is rank deficient."""
        return self.sigma_max_X / self.sigma_min_X if self.rank_X == self.d else float("inf")

    @property
    def kappa_Z(self) -> float:
        """Condition number of Z; infinite if it is rank deficient."""
        return self.sigma_max_Z / self.sigma_min_Z if self.rank_Z == self.d else float("inf")


@dataclass(frozen=True)
class State:
    """An identified server state: ``A = S + gamma I``, an independent estimate of its inverse, ``G = A W_0``."""

    A: Matrix
    H: Matrix
    """Estimated directly from the stacks, a check on A; never inverted to get A."""
    G: Matrix
    baseline: Head
    diagnostics: Diagnostics

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return self.baseline.d

    @property
    def c(self) -> int:
        """Number of classes."""
        return self.baseline.c


def diagnose_rank(
    transcript: Transcript, tolerance: float = RANK_TOLERANCE
) -> tuple[Diagnostics, StackFactor | SingleEntries, StackFactor | SingleEntries]:
    """Return rank and singular-value diagnostics of both stacks, and their factors."""
    factor_X, factor_Z = factor_stack(transcript.X), factor_stack(transcript.Z)
    top_X, low_X, rank_X = factor_X.singular_values(tolerance)
    top_Z, low_Z, rank_Z = factor_Z.singular_values(tolerance)
    r_W = None
    if transcript.final is not None:
        start = transcript.baseline.weights
        r_W = relative(transcript.final.weights - start, start)
    found = Diagnostics(
        d=transcript.d,
        responses=transcript.responses,
        rank_X=rank_X,
        rank_Z=rank_Z,
        sigma_max_X=top_X,
        sigma_min_X=low_X,
        sigma_max_Z=top_Z,
        sigma_min_Z=low_Z,
        tolerance=tolerance,
        r_W=r_W,
    )
    return found, factor_X, factor_Z


def identify(transcript: Transcript, *, tolerance: float = RANK_TOLERANCE) -> State:
    """Estimate the state: ``A = Z X^+`` and, independently, ``H = X Z^+``, both by QR.

    Raises
    ------
    NotIdentifiedError
        If either stack is rank deficient at the tolerance, or either symmetrised estimate is not positive definite. The
        error carries the diagnostics so far.
    """
    found, factor_X, factor_Z = diagnose_rank(transcript, tolerance)
    found.require_full_rank()
    d = transcript.d
    raw_A, residual_A = factor_X.right_divide(transcript.Z)
    raw_H, residual_H = factor_Z.right_divide(transcript.X)
    A, H = symmetric(raw_A), symmetric(raw_H)
    found = replace(
        found,
        e_AR=residual_A / max(float(np.linalg.norm(transcript.Z)), DENOMINATOR_FLOOR),
        e_HQ=residual_H / max(float(np.linalg.norm(transcript.X)), DENOMINATOR_FLOOR),
        asymmetry_A=relative_asymmetry(raw_A),
        asymmetry_H=relative_asymmetry(raw_H),
        min_eigenvalue_A=smallest_eigenvalue(A),
        min_eigenvalue_H=smallest_eigenvalue(H),
    )
    low_A, low_H = found.min_eigenvalue_A, found.min_eigenvalue_H
    if low_A is None or low_H is None or low_A <= 0 or low_H <= 0:
        raise NotIdentifiedError(
            f"unstable: smallest eigenvalue of A is {low_A:.3g}, of H {low_H:.3g}; both must be positive", found
        )
    product = A @ H
    product.flat[:: d + 1] -= 1.0
    found = replace(found, e_AH=float(np.linalg.norm(product) / np.sqrt(d)))
    return State(A, H, A @ transcript.baseline.weights, transcript.baseline, found)
