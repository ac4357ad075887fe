"""Relative error of the recovered feature where the label was right, attacker data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from exhume.paper.study import Study
from exhume.paper.table import PRECISIONS, Results, Table, TableRow, own_deletions, row
from exhume.paper.values import Count, Number, Value
from exhume.paper.work import Job, Result

__all__ = ["TABLES"]

_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "mean": lambda errors: float(np.mean(errors)),
    "median": lambda errors: float(np.median(errors)),
    "maximum": max,
}


def _jobs(study: Study) -> list[Job]:
    return [job for precision in PRECISIONS for job in own_deletions(study, precision, "record")]


def _cells(trials: list[Result], method: str, prefix: str) -> dict[str, Value | None]:
    right = [t[method] for t in trials if t[method] is not None and t[method]["label_correct"]]
    cells: dict[str, Value | None] = {f"{prefix}correct": Count(len(right), len(trials))}
    for name, statistic in _STATISTICS.items():
        cells[prefix + name] = Number(statistic([r["relerr_feature"] for r in right])) if right else None
    return cells


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        for precision in PRECISIONS:
            trials = [results[job] for job in own_deletions(study, precision, "record")]
            cells = {**_cells(trials, "difference", ""), **_cells(trials, "rank_one", "rank-one ")}
            rows.append(row(study, precision, cells, len(trials)))
    return rows


TABLES = (
    Table(
        "feature_error",
        "Feature error given a correct label, attacker data",
        tuple(prefix + name for prefix in ("", "rank-one ") for name in ("correct", *_STATISTICS)),
        _jobs,
        _rows,
        order=100,
    ),
)
