"""The matrix in files: what each defence leaks and costs as Markdown, every cell as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from exhume.advise.advice import Advised, aim_of
from exhume.advise.records import CellResult

__all__ = ["costs", "table_of_cells"]

COLUMNS = (
    "defence", "attack", "busy", "trials", "deleted", "labels", "replays",
    "damage_points", "honest_refused", "messages", "could_have_missed",
)  # fmt: skip


def table_of_cells(cells: Sequence[CellResult], rows: Sequence[Advised]) -> str:
    """Return a line of CSV for each attack against each defence, on the quiet server and the busy one.

    Its last column is the rate of labels up to which a reader of this defence passes for chance.
    """
    missed = {row.defence: row.detectable for row in rows}
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for cell in cells:
        if (score := cell.score) is not None:
            damage = f"{max(score.damage):.2f}" if score.damage else ""
            counts = (score.trials, score.deleted, score.labels, score.replays)
            where = (cell.defence, cell.attack, int(cell.busy))
            rate = _missed(missed.get(cell.defence, math.nan), ".3f") if aim_of(cell.attack) == "read" else ""
            lines.writerow((*where, *counts, damage, score.honest_refused, score.messages, rate))
    return text.getvalue()


def costs(rows: Sequence[Advised]) -> str:
    """Return what each defence leaks, what attacks on the service take, and what it costs."""
    title = [
        "defence",
        "reads labels",
        "could have missed",
        "best attack",
        "knows the feature",
        "least feature error",
        "burn",
    ]
    title += ["accuracy lost", "staleness", "exact", "honest refused", "deletions served"]
    lines = [
        [
            row.defence,
            row.reads_labels(),
            "-" if math.isnan(row.label_rate) else _missed(row.detectable, ".0%"),
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


def _missed(rate: float, form: str) -> str:
    return "anything" if math.isnan(rate) else format(rate, form)


def _table(title: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [title, ["---"] * len(title), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
