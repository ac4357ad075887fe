"""Positive semidefinite: all four matrices of a message must be such that some rows can have made them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from exhume.defence.admission._numbers import MOST_ROWS, UNIT, floor_of, whitened_moment
from exhume.errors import InputError
from exhume.protocol import AdmissionRule, Summary, Update

__all__ = ["PositiveSemidefinite"]

ROUNDING = 1e-9
"""Relative room for the roundoff of the fewest rows: ``d^2 u`` and more for every d of a matrix that has a factor."""


class PositiveSemidefinite(AdmissionRule):
    """Refuses grams that are not symmetric positive semidefinite, and moments outside their gram's span.

    For real rows ``[[S, G], [G', n I]]`` is positive semidefinite, n being their number. The tolerance is the roundoff
    of summing ``most_rows`` rows and of the test itself (`forgiven`); one Cholesky factorisation a side does both tests
    (symmetry is a summary's own invariant: `Summary` refuses an asymmetry that roundoff does not explain).

    Parameters
    ----------
    most_rows
        The most rows that one message may hold.
    unit
        Unit roundoff of the arithmetic in which clients sum their rows.
    """

    name = "positive-semidefinite"
    about = "grams positive semidefinite, moments in their span"
    reads: ClassVar[str] = "message"
    former = ("positive",)

    def __init__(self, most_rows: int = MOST_ROWS, unit: float = UNIT) -> None:
        if most_rows < 1:
            raise InputError("most_rows", "at least 1", most_rows)
        self.most_rows = most_rows
        self.unit = unit

    def refuse(self, update: Update, client: str) -> str | None:
        """Test both sides."""
        for side, summary in (("add", update.add), ("delete", update.delete)):
            if not summary.is_zero and (reason := self._judge(summary)) is not None:
                return f"{self.name}: {side}: {reason}"
        return None

    def _judge(self, summary: Summary) -> str | None:
        floor = floor_of(summary, self.most_rows, self.unit)
        white = whitened_moment(summary, floor) if floor > 0 else None
        if white is None:
            return f"the gram is not positive semidefinite (roundoff explains eigenvalues down to {-floor:.3g})"
        rows = float(np.linalg.norm(white, 2) ** 2)
        if rows > self.most_rows * (1.0 + ROUNDING):
            return f"no {self.most_rows} rows with this gram have this moment (at least {rows:.3g} are needed)"
        return None

    def __repr__(self) -> str:
        return f"PositiveSemidefinite(most_rows={self.most_rows})"


RULES = (PositiveSemidefinite,)
