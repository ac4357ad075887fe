"""Relative error of the recovered feature where the label was right, attacker data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from exhume.paper.plan import Study
from exhume.paper.table import HEADS, Results, Row, Table, own_deletions
from exhume.paper.values import Count, Number, Value
from exhume.paper.work import Job, Result

__all__ = ["TABLE"]

_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "mean": lambda errors: float(np.mean(errors)),
    "median": lambda errors: float(np.median(errors)),
    "maximum": max,
}


def _jobs(study: Study) -> list[Job]:
    return [job for heads in HEADS for job in own_deletions(study, heads, "sample")]


def _cells(trials: list[Result], method: str, prefix: str) -> dict[str, Value | None]:
    right = [t[method] for t in trials if t[method] is not None and t[method]["label_correct"]]
    cells: dict[str, Value | None] = {f"{prefix}correct": Count(len(right), len(trials))}
    for name, statistic in _STATISTICS.items():
        cells[prefix + name] = Number(statistic([r["relerr_feature"] for r in right])) if right else None
    return cells


def _rows(studies: Sequence[Study], results: Results) -> list[Row]:
    rows = []
    for study in studies:
        for heads in HEADS:
            trials = [results[job] for job in own_deletions(study, heads, "sample")]
            cells = {**_cells(trials, "difference", ""), **_cells(trials, "rank_one", "rank-one ")}
            rows.append(Row(study.data, study.source.title, heads, cells, len(trials)))
    return rows


TABLE = Table(
    "feature_error",
    "Feature error given a correct label, attacker data",
    tuple(prefix + name for prefix in ("", "rank-one ") for name in ("correct", *_STATISTICS)),
    _jobs,
    _rows,
)
