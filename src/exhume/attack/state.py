"""An identified server state, and the numbers that say how far to trust it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, cast

import numpy as np

from exhume.attack._linalg import Positive, SingleEntries, StackFactor, factor_stack
from exhume.attack._line import line
from exhume.attack.coordinates import Coordinates
from exhume.attack.transcript import Transcript
from exhume.errors import InputError, NotIdentifiedError
from exhume.numerics import RANK_TOLERANCE, Matrix, Rows, relative, symmetric
from exhume.protocol.head import Head

__all__ = ["Diagnostics", "State", "alike", "check_sizes", "diagnose_rank"]


@dataclass(frozen=True, repr=False)
class Diagnostics:
    """Every number that Algorithm 1 reports. For moment-only probes X is the paper's R and Z its Q."""

    d: int
    """The rank that identifies the state: the number of coordinates that are not dead to the probe."""
    responses: int
    rank_X: int
    """Rank of X: on so many dimensions the state is determined."""
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

    def __repr__(self) -> str:
        ranks = f"{self.rank_X},{self.rank_Z}/{self.d}"
        return line(self, responses=self.responses, ranks=ranks, kappa_X=self.kappa_X, e_AR=self.e_AR, e_AH=self.e_AH)


@dataclass(frozen=True, repr=False)
class State:
    """An identified server state: ``A = S + gamma I``, an independent estimate of its inverse, ``G = A W_0``."""

    A: Matrix
    H: Matrix
    """Estimated from the stacks: a check on A where that is estimated too (Algorithm 1), else A is its inverse."""
    G: Matrix
    baseline: Head
    diagnostics: Diagnostics
    basis: Matrix | None = None
    """Orthonormal basis of the span on which A was determined (d x r); None where that is all of it."""
    live: Rows | None = None
    """The coordinates that were not dead to the probe; None where that is all of them.

    A is then the Schur complement on these, within the identity; G and the baseline are zero in the others.
    """
    noise: float = 0.0
    """What was measured of the server's own arithmetic: the error of the change between two heads, whitened by A."""

    @classmethod
    def of(cls, A: Matrix, head: Head) -> State:
        """Return a state of which A, known or guessed, and one head are given: nothing was probed."""
        nothing = Diagnostics(len(A), 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)
        return cls(A, np.asarray(np.linalg.inv(A)), A @ head.weights, head, nothing)

    @cached_property
    def factor(self) -> Positive:
        """The Cholesky factor of A, made once for all recoveries from this state.

        Raises
        ------
        numpy.linalg.LinAlgError
            If A is not positive definite.
        """
        made = Positive.of(self.A)
        if made is None:
            raise np.linalg.LinAlgError("A is not positive definite")
        return made

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return self.baseline.d

    @property
    def c(self) -> int:
        """Number of classes."""
        return self.baseline.c

    def on(self, live: Rows | None) -> State:
        """Return the state as it is to those to whom only some of the coordinates are live."""
        if live is None or (self.live is not None and np.array_equal(live, self.live)):
            return self
        at = Coordinates(self.d, live, np.ones(len(live)))
        H = self.H[np.ix_(live, live)]
        A = symmetric(np.asarray(np.linalg.inv(H)))
        head = _hidden(self.baseline, live)
        G = at.spread(A @ head.weights[live])
        return replace(self, A=at.spread_square(A), H=at.spread_square(H), G=G, baseline=head, live=live)

    @property
    def known_share(self) -> float:
        """The share of A's d(d+1)/2 free entries that was determined: all but one corner block."""
        free = 0 if self.basis is None else self.d - self.basis.shape[1]
        return 1.0 - free * (free + 1) / (self.d * (self.d + 1))

    def __repr__(self) -> str:
        found = self.diagnostics
        rank = None if self.basis is None else self.basis.shape[1]
        return line(
            self, d=self.d, c=self.c, precision=self.baseline.precision, responses=found.responses, known_rank=rank
        )


def check_sizes(before: State | Head, after: State | Head | Transcript) -> None:
    """Refuse what was seen after a deletion if it is not of the sizes seen before it."""
    if (before.d, before.c) != (after.d, after.c):
        raise InputError("after", f"of d = {before.d}, c = {before.c}", f"d = {after.d}, c = {after.c}")


Seen = TypeVar("Seen", bound="State | Head | Transcript")


def alike(before: State, after: Seen) -> tuple[State, Seen]:
    """Return what was known before a deletion and seen after it in the same live coordinates, zero in all others.

    Raises
    ------
    InputError
        If they are not of one size, or a run after it speaks of coordinates that are dead to the state.
    """
    check_sizes(before, after)
    live = _common(before.live, after.live) if isinstance(after, State) else before.live
    return (before, after) if live is None else (before.on(live), cast(Seen, _known_on(live, after)))


def _known_on(live: Rows, after: State | Head | Transcript) -> State | Head | Transcript:
    if isinstance(after, State):
        return after.on(live)
    if isinstance(after, Head):
        return _hidden(after, live)
    dead = np.setdiff1d(np.arange(after.d), live)
    if after.Z[dead].any():
        raise InputError("after", "a run of a probe to which the same coordinates are dead", f"a {after.probe} run")
    X = after.X.copy()
    X[dead] = 0.0
    return replace(after, baseline=_hidden(after.baseline, live), X=X)


def _common(one: Rows | None, other: Rows | None) -> Rows | None:
    if one is None or other is None:
        return other if one is None else one
    return np.intersect1d(one, other)


def _hidden(head: Head, live: Rows) -> Head:
    """Return a head that is zero in all coordinates but the live ones."""
    weights = np.zeros_like(head.weights)
    weights[live] = head.weights[live]
    return Head(weights, head.precision, head.serial)


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
