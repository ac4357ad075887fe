"""The exposure table of the report: one row per client, one column per probe and server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exhume.audit.plan import BARE
from exhume.audit.records import CellRecord
from exhume.audit.records_defence import ExposureRecord

__all__ = ["MOST_CLIENTS", "ExposureView", "exposure_view"]

MOST_NAMED = 4
"""Clients with the same exposure that are named."""

MOST_CLIENTS = 12
"""Rows of the table; the rest is in report.json."""


@dataclass(frozen=True)
class ExposureView:
    """What the page shows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, bool, tuple[float | None, ...]], ...]
    """Client, whether it attacks, and its exposure per column; the attacker first, then the most exposed."""
    left_out: int
    meanings: tuple[tuple[str, str], ...]
    """What the attacker could know, per column."""


def exposure_view(cells: Sequence[CellRecord]) -> ExposureView | None:
    """Arrange the exposures of all cells; None where nothing was measured."""
    shown = [cell for cell in cells if cell.exposure]
    if not shown:
        return None
    found = {name: tuple(_of(cell, name) for cell in shown) for name in dict.fromkeys(_names(shown))}
    rows = [
        (name, any(e.attacker for e in own if e is not None), tuple(None if e is None else e.value for e in own))
        for name, own in found.items()
    ]
    rows = _folded(rows)
    rows.sort(key=lambda row: (not row[1], -max((value or 0.0 for value in row[2]), default=0.0)))
    columns = tuple(f"{cell.probe}, {cell.precision if cell.server == BARE else cell.server}" for cell in shown)
    meanings = tuple(
        (column, e.meaning) for column, cell in zip(columns, shown, strict=True) for e in cell.exposure if e.attacker
    )
    return ExposureView(columns, tuple(rows[:MOST_CLIENTS]), max(len(rows) - MOST_CLIENTS, 0), meanings)


_Row = tuple[str, bool, tuple[float | None, ...]]


def _folded(rows: list[_Row]) -> list[_Row]:
    """Return clients that look the same in one row."""
    groups: dict[tuple[object, ...], list[_Row]] = {}
    for row in rows:
        seen = tuple(None if value is None else round(value, 2) for value in row[2])
        groups.setdefault((row[1], *seen), []).append(row)
    return [(_joined([row[0] for row in group]), *group[0][1:]) for group in groups.values()]


def _joined(names: list[str]) -> str:
    """Write some clients: all of a few, the first and the number of many."""
    return ", ".join(names) if len(names) <= MOST_NAMED else f"{names[0]} and {len(names) - 1} more alike"


def _names(cells: Sequence[CellRecord]) -> list[str]:
    return [e.client for cell in cells for e in cell.exposure]


def _of(cell: CellRecord, name: str) -> ExposureRecord | None:
    return next((e for e in cell.exposure if e.client == name), None)
