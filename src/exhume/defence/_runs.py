"""Quiet runs: for each size of coalition, the longest stretch of changes that some coalition knows in full.

A coalition has equations ``A X = Z`` for the heads since the last change that none of its members made. Among the
coalitions of size j, the one of the last j distinct authors has the longest such stretch, and every other one has a
stretch that a smaller coalition has too. So there is one run per size to keep, not one per coalition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from exhume.defence._basis import Basis, Plan
from exhume.defence._matrix import Matrix

__all__ = ["Run", "Seen", "extend"]


@dataclass(frozen=True)
class Seen:
    """A head that went out: the ridge solution in it, and what rounding and noise added."""

    signal: Matrix
    error: Matrix


@dataclass(frozen=True)
class Run:
    """The changes that a coalition knows in full, and the stack of responses among them."""

    members: tuple[str, ...]
    """Its authors, the latest first."""
    basis: Basis
    baseline: Seen | None
    """The first head of the run; None until one goes out."""
    responses: int = 0
    error: float = field(default=0.0)
    """Squared Frobenius norm of the errors in the stack."""

    def plan(self, signal: Matrix) -> Plan | None:
        """Return what a head would add to the stack; None if it would be the baseline."""
        return None if self.baseline is None else self.basis.plan(signal - self.baseline.signal)

    def heard(self, seen: Seen, plan: Plan | None) -> Run:
        """Return the run with one more head, planned for this one."""
        if self.baseline is None or plan is None:
            return replace(self, baseline=seen)
        self.basis.add(plan)
        # The solver's own roundoff bounds what even a float64 release can tell.
        floor = np.finfo(np.float64).eps * float(np.linalg.norm(seen.signal))
        error = max(float(np.linalg.norm(seen.error - self.baseline.error)), floor)
        return replace(self, responses=self.responses + 1, error=self.error + error**2)

    def state_error(self) -> float:
        """Return Proposition 1's bound on the relative error of the state that the stack identifies."""
        if self.basis.rank < self.basis.d:
            return float("inf")
        return float(np.sqrt(self.error) / self.basis.singular_values()[-1])

    def condition(self) -> float:
        """Return the condition number of the stack within its own span; 1 if it is empty."""
        values = self.basis.singular_values()
        return float(values[0] / values[-1]) if len(values) else 1.0


def extend(runs: Sequence[Run], author: str, last: Seen | None, d: int, most: int) -> tuple[Run, ...]:
    """Return the runs for 1, 2, ... authors after one more change.

    Parameters
    ----------
    runs
        The runs so far, by size.
    author
        Who made the change.
    last
        The last head, if it shows the state just before the change.
    d, most
        Feature dimension, and largest size of a coalition.
    """
    order = [author] + [name for name in (runs[-1].members if runs else ()) if name != author]
    known = runs[-1].members.index(author) if runs and author in runs[-1].members else len(runs)
    out = []
    for size in range(1, min(most, len(order)) + 1):
        if size > known:
            # The author was among these already, or is the one that joins the whole of the longest run.
            base = runs[size - 1] if size <= len(runs) else runs[-1] if runs else None
        else:
            base = runs[size - 2] if size > 1 else None
        if base is None:
            base = Run((), Basis(d), last)
        out.append(replace(base, members=tuple(order[:size])))
    return tuple(out)
