"""Measured and published side by side: one comparison per cell, and the differences that need words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from exhume.paper.agreement import KINDS, Pair, Tally, gap, kind_of, tallies
from exhume.paper.feature_source import WIDE
from exhume.paper.published import ENCODER, published, ratio_reasons, reasons
from exhume.paper.table import Table, TableRow
from exhume.paper.values import Count, Mean, Number, Range, Value

__all__ = ["Comparison", "Difference", "Ratio", "compared", "differences", "ratios", "tallied"]

_NO_SOLVE = ("detectability", "prediction_change")
_FLOAT32 = ("designed_precision", "rank_sensitivity")
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
    def pair(self) -> Pair | None:
        """Both values, if both exist and come from the same encoder."""
        paper = WIDE if self.table == "dinov2" else ENCODER
        if self.published is None or self.measured is None or self.encoder != paper:
            return None
        return Pair(self.published, self.measured, self.trials)

    @property
    def kind(self) -> str | None:
        """By which rule it is compared; None of what the paper does not have or says in words."""
        return None if self.published is None else kind_of(self.table, self.column, self.published)

    @property
    def comparable(self) -> bool:
        """Whether there is a pair of values and a rule for it."""
        return self.pair is not None and self.kind is not None

    @property
    def agrees(self) -> bool:
        """Whether the rule of its kind was applied, and holds."""
        pair, kind = self.pair, self.kind
        return pair is not None and kind is not None and KINDS[kind](pair)

    @property
    def gap(self) -> float | None:
        """Difference of log10, measured minus published, where there is one."""
        return None if self.pair is None else gap(self.pair)

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
    """Say how a cell differs, if the rule of its kind says that it does."""
    if not cell.comparable or cell.agrees:
        return None
    ours, theirs = cell.measured, cell.published
    if isinstance(ours, Count) and isinstance(theirs, Count):
        part = "" if ours.of == theirs.of else " of a subsample"
        return f"{ours.count}/{ours.of}{part}, published {theirs.count}/{theirs.of}{_overlap(ours, theirs)}"
    ratio = "" if cell.gap is None else f", {10**cell.gap:.3g} times"
    return f"{ours}, published {theirs}{ratio}"


def _overlap(ours: Count, theirs: Count) -> str:
    if ours.interval is None or theirs.interval is None:
        return ""
    meet = ours.interval[0] <= theirs.interval[1] and theirs.interval[0] <= ours.interval[1]
    return ", intervals overlap" if meet else ", intervals do not overlap"


def _pair(everything: Sequence[Comparison], data: str, table: str, column: str, row: str = "") -> str | None:
    for cell in everything:
        if (cell.data, cell.table, cell.column) == (data, table, column) and cell.row.startswith(row):
            ours, theirs = cell.measured, cell.published
            if isinstance(ours, Number | Range | Mean) and theirs is not None:
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


def tallied(everything: Iterable[Comparison]) -> list[Tally]:
    """Return how many comparable cells agree and how near they are, by kind and in all."""
    return tallies((cell.kind, cell.agrees, cell.gap) for cell in everything if cell.comparable and cell.kind)


@dataclass(frozen=True)
class Ratio:
    """How the errors of one table, at one precision of heads, lie to the published ones."""

    table: str
    heads: str
    cells: int
    above: int
    """How many are larger than the published ones."""
    mean: float
    """Geometric mean of measured over published."""
    reason: str | None


_FEWEST = 5
"""Fewer cells than this make no pattern: of five coins all fall alike once in sixteen times."""


def ratios(everything: Iterable[Comparison]) -> list[Ratio]:
    """Return, for every table with errors, on which side of the published ones they lie, by precision of heads.

    The cells of a table share states and draws, so that their number says little of chance.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    for cell in everything:
        if cell.comparable and cell.kind in ("error", "signed") and cell.gap is not None:
            float32 = "float32" in cell.row or cell.table in _FLOAT32
            groups.setdefault((cell.table, "float32" if float32 else "float64"), []).append(cell.gap)
    found = []
    for (table, heads), gaps in groups.items():
        if len(gaps) >= _FEWEST:
            given = [r["because"] for r in ratio_reasons() if r["table"] == table and r.get("heads", heads) == heads]
            above, mean = sum(gap > 0 for gap in gaps), 10 ** (sum(gaps) / len(gaps))
            found.append(Ratio(table, heads, len(gaps), above, mean, given[0] if given else None))
    return found


def differences(everything: Sequence[Comparison]) -> list[Difference]:
    """Return every comparable cell that does not agree by the rule of its kind."""
    found = []
    for cell in everything:
        what = _differs(cell)
        if what is not None:
            found.append(Difference(cell, what, _conditions(everything, cell), _reason(cell)))
    return found
