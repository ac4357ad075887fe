"""The matrix as Markdown: what each attack reads behind each defence, and what each defence costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from exhume.audit.advise.advice import Row

__all__ = ["costs", "matrix"]


def matrix(records: Sequence[dict[str, Any]], *, busy: bool = False) -> str:
    """Return labels read per defence and attack, of the deletions in the first column; replays in the last ones."""
    scored = [r for r in records if "score" in r and r["busy"] == busy and r["attack"] != "burn"]
    if not scored:
        return ""
    attacks = list(dict.fromkeys(r["attack"] for r in scored))
    names = list(dict.fromkeys(r["defence"] for r in scored))
    found = {(r["defence"], r["attack"]): r["score"] for r in scored}
    readers = [attack for attack in attacks if attack != "replay"]
    lines = []
    for name in names:
        mine = {attack: found[name, attack] for attack in attacks if (name, attack) in found}
        cells = [str(mine[a]["labels"]) if a in mine else "-" for a in readers]
        cells.append(str(max((mine[a]["replays"] for a in readers if a in mine), default="-")))
        if "replay" in attacks:
            cells.append(str(mine["replay"]["replays"]) if "replay" in mine else "-")
        of = sorted({s["trials"] for s in mine.values()})
        lines.append([name, "/".join(map(str, of)), *cells])
    title = ["defence", "of", *readers, "replays", *(["told"] if "replay" in attacks else [])]
    return _table(title, lines)


def costs(rows: Sequence[Row]) -> str:
    """Return what each defence costs, and what `burn` takes."""
    title = ["defence", "accuracy lost", "staleness", "exact", "honest refused", "deletions served", "burn"]
    title += ["labels by the best attack", "least feature error", "goal"]
    lines = [
        [
            row.defence,
            f"{row.accuracy_lost:.2f}",
            f"{row.staleness:.1f}",
            "yes" if row.exact else f"to {row.head_error:.0e}",
            f"{row.refused}/{row.sent}",
            f"{row.deletions_served}/{row.deletions_asked}",
            _number(row.damage, ".1f"),
            f"{_number(row.label_rate, '.0%')} ({row.worst})",
            _number(row.feature_error, ".0e"),
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
