"""Quiet runs: for each number of colluders, the longest stretch of changes that so many know in full.

Colluders have equations ``A X = Z`` for the heads since the last change that none of them made. Among all groups of j
colluders, the last j distinct authors have the longest such stretch, and every other group has a stretch that a smaller
one has too. So there is one run per number of colluders to keep, not one per group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from exhume.defence.accountants._basis import Basis, Extension
from exhume.numerics import Matrix, Rows
from exhume.protocol.ledger import Ledger

__all__ = ["QuietRun", "SeenHead", "extend"]


@dataclass(frozen=True)
class SeenHead:
    """A head that went out: the ridge solution in it, what rounding and noise added, and the state behind it."""

    signal: Matrix
    error: Matrix
    residual: Matrix
    """``A_j W_j - G_j`` with the head as it went out: by how much it misses the equation of its state."""
    size: float
    """Frobenius norm of ``A_j``."""

    @classmethod
    def of(cls, signal: Matrix, released: Matrix, ledger: Ledger) -> SeenHead:
        """Return a head that goes out at the ledger's present state."""
        return cls(signal, released - signal, ledger.residual(released), ledger.size())

    def arrays(self, prefix: str) -> dict[str, Matrix]:
        """Return it as arrays by name."""
        found = {"signal": self.signal, "error": self.error, "residual": self.residual, "size": np.array([self.size])}
        return {f"{prefix}.{name}": array for name, array in found.items()}

    @classmethod
    def restored(cls, prefix: str, arrays: Mapping[str, Matrix]) -> SeenHead | None:
        """Return the head that `arrays` was taken from; None if there was none."""
        if f"{prefix}.signal" not in arrays:
            return None
        signal, error, residual = (arrays[f"{prefix}.{part}"] for part in ("signal", "error", "residual"))
        return cls(signal, error, residual, float(arrays[f"{prefix}.size"][0]))


@dataclass(frozen=True)
class QuietRun:
    """The changes that some colluders know in full, and the stack of responses among them."""

    members: tuple[str, ...]
    """Its authors, the latest first."""
    basis: Basis
    baseline: SeenHead | None
    """The first head of the run; None until one goes out."""
    responses: int = 0
    blur: float = 0.0
    """Squared Frobenius norm of the errors in the stack."""
    misfit: float = 0.0
    """Squared Frobenius norm of ``Z - A X`` for the stack as it went out."""

    def extension(self, signal: Matrix) -> Extension | None:
        """Return what a head would add to the stack; None if it would be the baseline."""
        return None if self.baseline is None else self.basis.extension(signal - self.baseline.signal)

    def heard(self, seen: SeenHead, extension: Extension | None) -> QuietRun:
        """Return the run with one more head, and what that adds to the stack."""
        if self.baseline is None or extension is None:
            return replace(self, baseline=seen)
        self.basis.add(extension)
        with np.errstate(invalid="ignore"):
            blur = float(np.linalg.norm(seen.error - self.baseline.error))
            misfit = float(np.linalg.norm(seen.residual - self.baseline.residual))
        # Float64 resolves no residual below this: neither the solve that made the head nor the product that tests it.
        floor = float(np.finfo(np.float64).eps) * seen.size * float(np.linalg.norm(seen.signal))
        return replace(
            self,
            responses=self.responses + 1,
            blur=self.blur + blur**2,
            misfit=self.misfit + max(misfit, floor) ** 2,
        )

    def state_error(self, live: Rows) -> float:
        """Return a bound on the relative error of the state that the stack identifies; infinite where there is none.

        Heads ``W_j`` of states ``A_j = A + P_j`` with residuals ``D_j = A_j W_j - G_j`` make the equations
        ``A X - Z = [D_j - D_0]``, so that ``|Z X^+ - A| <= |[D_j - D_0]| / sigma_min(X)``: Proposition 1 where the
        ``P_j`` are zero, the paper's rounding of genuine additions where they are not. X here is the stack as it went
        out, whose smallest singular value is at least that of the exact stack less the size of the errors (Weyl).

        Where only some coordinates are live to the client, the same holds of their Schur complement, with the rows
        ``X_L`` in place of X and ``D_L + K' D_D`` in place of D, where ``X_D = K X_L``.
        """
        if self.basis.rank < len(live) or self.baseline is None:
            return float("inf")
        low, spill = self.basis.extremes()[1], 1.0
        if len(live) < self.basis.d:
            values, spill = self.basis.on(live)
            low = float(values[-1])
        least = low - float(np.sqrt(self.blur))
        if not (least > 0.0 and self.baseline.size > 0.0 and np.isfinite(self.misfit)):
            return float("inf")
        return spill * float(np.sqrt(self.misfit)) / (self.baseline.size * least)

    def condition(self) -> float:
        """Return the condition number of the stack within its own span; 1 if it is empty."""
        top, low = self.basis.extremes()
        return top / low if self.basis.rank else 1.0


def extend(runs: Sequence[QuietRun], author: str, last: SeenHead | None, d: int, most: int) -> tuple[QuietRun, ...]:
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
        Feature dimension, and largest number of colluders.
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
            base = QuietRun((), Basis(d), last)
        out.append(replace(base, members=tuple(order[:size])))
    return tuple(out)
