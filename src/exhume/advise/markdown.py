"""The matrix in files: what each defence leaks and costs as Markdown, every cell as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from exhume.advise.advice import Advised
from exhume.advise.records import CellResult

__all__ = ["costs", "table_of_cells"]

COLUMNS = (
    "defence", "attack", "busy", "trials", "deleted", "labels", "replays",
    "damage_points", "honest_refused", "messages",
)  # fmt: skip


def table_of_cells(cells: Sequence[CellResult]) -> str:
    """Return a line of CSV for each attack against each defence, on the quiet server and the busy one."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for cell in cells:
        if (score := cell.score) is not None:
            damage = f"{max(score.damage):.2f}" if score.damage else ""
            counts = (score.trials, score.deleted, score.labels, score.replays)
            where = (cell.defence, cell.attack, int(cell.busy))
            lines.writerow((*where, *counts, damage, score.honest_refused, score.messages))
    return text.getvalue()


def costs(rows: Sequence[Advised]) -> str:
    """Return what each defence leaks, what attacks on the service take, and what it costs."""
    title = ["defence", "reads labels", "best attack", "knows the feature", "least feature error", "burn"]
    title += ["accuracy lost", "staleness", "exact", "honest refused", "deletions served"]
    lines = [
        [
            row.defence,
            row.reads_labels(),
            f"{_number(row.label_rate, '.0%')} ({row.worst})",
            f"{_number(row.known_rate, '.0%')} ({row.known_worst})",
            _number(row.feature_error, ".0e"),
            f"{_number(row.damage, '.1f')}, {row.honest_refused} refused",
            f"{row.accuracy_lost:.2f}",
            f"{row.staleness:.1f}",
            "yes" if row.exact else f"to {row.head_error:.0e}",
            f"{row.refused}/{row.sent}",
            f"{row.deletions_served}/{row.deletions_asked}",
        ]
        for row in rows
    ]
    return _table(title, lines)


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _table(title: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [title, ["---"] * len(title), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
