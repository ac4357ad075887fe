"""The matrix as Markdown: what each attack reads behind each defence, and what each defence costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from exhume.advise.advice import Advised, aim_of
from exhume.advise.records import CellResult

__all__ = ["costs", "matrix"]


def matrix(cells: Sequence[CellResult], *, busy: bool = False) -> str:
    """Return labels read per defence and attack, of the deletions in the first column; replays in the last ones."""
    scores = {
        (cell.defence, cell.attack): cell.score
        for cell in cells
        if cell.score is not None and cell.busy == busy and aim_of(cell.attack) != "burn"
    }
    if not scores:
        return ""
    attacks, names = list(dict.fromkeys(a for _, a in scores)), list(dict.fromkeys(d for d, _ in scores))
    readers = [attack for attack in attacks if attack != "replay"]
    lines = []
    for name in names:
        mine = {attack: scores[name, attack] for attack in attacks if (name, attack) in scores}
        shown = [str(mine[a].labels) if a in mine else "-" for a in readers]
        shown.append(str(max((mine[a].replays for a in readers if a in mine), default="-")))
        if "replay" in attacks:
            shown.append(str(mine["replay"].replays) if "replay" in mine else "-")
        of = sorted({score.trials for score in mine.values()})
        lines.append([name, "/".join(map(str, of)), *shown])
    title = ["defence", "of", *readers, "replays", *(["told"] if "replay" in attacks else [])]
    return _table(title, lines)


def costs(rows: Sequence[Advised]) -> str:
    """Return what each defence costs, and what `burn` takes."""
    title = ["defence", "accuracy lost", "staleness", "exact", "honest refused", "deletions served", "burn"]
    title += [
        "labels by the best attack",
        "knows the feature",
        "least feature error",
        "above chance",
        "could have detected",
        "goal",
    ]
    lines = [
        [
            row.defence,
            f"{row.accuracy_lost:.2f}",
            f"{row.staleness:.1f}",
            "yes" if row.exact else f"to {row.head_error:.0e}",
            f"{row.refused}/{row.sent}",
            f"{row.deletions_served}/{row.deletions_asked}",
            f"{_number(row.damage, '.1f')}, {row.honest_refused} refused",
            f"{_number(row.label_rate, '.0%')} ({row.worst})",
            f"{_number(row.known_rate, '.0%')} ({row.known_worst})",
            _number(row.feature_error, ".0e"),
            "yes" if row.leaks() else "not found",
            _number(row.detectable, ".0%"),
            "refuted" if row.refutes() else "not refuted",
        ]
        for row in rows
    ]
    return _table(title, lines)


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _table(title: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [title, ["---"] * len(title), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
