"""Measured and published side by side: one comparison per cell, and the differences that need words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from exhume.paper.feature_source import WIDE
from exhume.paper.published import ENCODER, published, reasons
from exhume.paper.table import Table, TableRow
from exhume.paper.values import Count, Number, Range, Value

__all__ = ["FACTORS", "HALF_UNIT", "Agreement", "Comparison", "Difference", "compared", "differences"]

HALF_UNIT = 0.5
"""Mean errors may differ by this much in log10 before an explanation is due."""

FACTORS = (1.5, 2.0, 10**HALF_UNIT)
"""Agreement of sizes is told for each of these factors."""

_NO_SOLVE = ("detectability", "prediction_change")
_OWN_DATA = ("attacker_data", "attacker_complete", "replay_psd", "feature_error", "rank_sensitivity")


@dataclass(frozen=True)
class Comparison:
    """One cell of one table."""

    table: str
    row: str
    column: str
    published: Value | None
    measured: Value | None
    trials: int
    data: str
    encoder: str

    @property
    def comparable(self) -> bool:
        """Whether both values exist and come from the same encoder."""
        paper = WIDE if self.table == "dinov2" else ENCODER
        return self.published is not None and self.measured is not None and self.encoder == paper

    @property
    def gap(self) -> float | None:
        """Difference of log10, measured minus published, where both are positive sizes."""
        if not self.comparable or self.published is None or self.measured is None:
            return None
        ours, theirs = self.measured.size, self.published.size
        return None if ours is None or theirs is None else math.log10(ours / theirs)

    def plain(self) -> dict[str, Any]:
        """Return what goes into JSON."""
        return {
            "table": self.table,
            "row": self.row,
            "column": self.column,
            "published": None if self.published is None else self.published.plain(),
            "measured": None if self.measured is None else self.measured.plain(),
            "trials": self.trials,
            "data": self.data,
            "encoder": self.encoder,
        }


def compared(table: Table, rows: Iterable[TableRow]) -> list[Comparison]:
    """Return one comparison per cell that is measured or published."""
    found = []
    for row in rows:
        for column in table.columns:
            theirs, ours = published(table.name, row.data, row.name, column), row.cells.get(column)
            if theirs is not None or ours is not None:
                found.append(Comparison(table.name, row.name, column, theirs, ours, row.trials, row.data, row.encoder))
    return found


@dataclass(frozen=True)
class Difference:
    """A cell that differs from the published one by more than the rules allow, and why."""

    cell: Comparison
    what: str
    conditions: str
    """Condition number and smallest eigenvalue of both, from measured and published values."""
    reason: str | None
    """The hand-written part; None where nobody has written one yet."""


def _differs(cell: Comparison) -> str | None:
    ours, theirs = cell.measured, cell.published
    if isinstance(ours, Count) and isinstance(theirs, Count):
        if ours.count * theirs.of == theirs.count * ours.of:
            return None
        part = "" if ours.of == theirs.of else " of a subsample"
        return f"{ours.count}/{ours.of}{part}, published {theirs.count}/{theirs.of}{_overlap(ours, theirs)}"
    gap = cell.gap
    if gap is None or abs(gap) <= HALF_UNIT:
        return None
    return f"log10 differs by {gap:+.2f}"


def _overlap(ours: Count, theirs: Count) -> str:
    if ours.interval is None or theirs.interval is None:
        return ""
    meet = ours.interval[0] <= theirs.interval[1] and theirs.interval[0] <= ours.interval[1]
    return ", intervals overlap" if meet else ", intervals do not overlap"


def _pair(everything: Sequence[Comparison], data: str, table: str, column: str, row: str = "") -> str | None:
    for cell in everything:
        if (cell.data, cell.table, cell.column) == (data, table, column) and cell.row.startswith(row):
            ours, theirs = cell.measured, cell.published
            if isinstance(ours, Number | Range) and theirs is not None:
                return f"{ours} measured, {theirs} published"
    return None


def _conditions(everything: Sequence[Comparison], cell: Comparison) -> str:
    if cell.table in _NO_SOLVE:
        return ""
    own = cell.table in _OWN_DATA or cell.row == "attacker data"
    kappa = (
        _pair(everything, cell.data, "attacker_facts", "median κ(X)")
        if own
        else _pair(everything, cell.data, "rank_threshold", "κ(R)", _probe_row(cell))
    )
    low = _pair(everything, cell.data, "state_diagnostics", "λ_min(A)", "designed")
    parts = [f"{name} {pair}" for name, pair in (("κ", kappa), ("λ_min(A)", low)) if pair is not None]
    return "; ".join(parts)


def _probe_row(cell: Comparison) -> str:
    """Return the row of `rank_threshold` whose conditioning a cell follows: its own, else the designed probe's."""
    return cell.row if cell.table == "rank_threshold" else "designed"


def _reason(cell: Comparison) -> str | None:
    keys = {"table": cell.table, "data": cell.data, "row": cell.row, "column": cell.column}
    for entry in reasons():
        if all(entry.get(key, value) == value for key, value in keys.items()):
            return entry["because"]
    return None


@dataclass(frozen=True)
class Agreement:
    """How near the comparable cells are, each kind of value by a rule of its own."""

    counts: int
    counts_equal: int
    sizes: int
    within: dict[float, int]
    """Sizes within a factor of the published one, by factor; half a unit of log10 is a factor of 3.16."""
    without: int
    """Cells that agree with nothing because one of the two is zero, negative or infinite: no size to compare."""

    @classmethod
    def of(cls, everything: Sequence[Comparison]) -> Agreement:
        """Count; a cell without a size on either side is not counted as agreement."""
        cells = [cell for cell in everything if cell.comparable]
        counts = [c for c in cells if isinstance(c.measured, Count) and isinstance(c.published, Count)]
        gaps = [abs(c.gap) for c in cells if c.gap is not None]
        return cls(
            len(counts),
            sum(_differs(c) is None for c in counts),
            len(gaps),
            {factor: sum(gap <= math.log10(factor) for gap in gaps) for factor in FACTORS},
            len(cells) - len(counts) - len(gaps),
        )

    def __str__(self) -> str:
        near = ", ".join(f"{n} within {factor:.3g} times" for factor, n in self.within.items())
        return (
            f"Counts: {self.counts_equal} of {self.counts} are equal. Sizes: of {self.sizes}, {near} the published "
            f"value. {self.without} cells have no size on one side (zero, negative or infinite) and are not counted as "
            "agreement."
        )


def differences(everything: Sequence[Comparison]) -> list[Difference]:
    """Return every comparable cell whose count differs, or whose size differs by more than half a unit of log10."""
    found = []
    for cell in everything:
        what = _differs(cell) if cell.comparable else None
        if what is not None:
            found.append(Difference(cell, what, _conditions(everything, cell), _reason(cell)))
    return found
