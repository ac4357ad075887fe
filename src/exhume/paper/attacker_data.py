"""Deletion recovery from the attacker's own rows, short form: twice the lower bound of responses (m = 104).

Splits, batch permutations and targets come from seeds 0 to 4, each by a fresh ``default_rng(seed)``; the paper states
the seeds but not the permutation. Targets: 100 rows and 20 clients that the attacker does not hold, all ten classes.
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.plan import Study
from exhume.paper.table import HEADS, LEVELS, Results, Row, Table, errors, labels, own_deletions, rank_one
from exhume.paper.values import Value
from exhume.paper.work import Job

__all__ = ["TABLE", "own_jobs"]

_COLUMNS = ("sample labels", *(f"{level} {which}" for level in LEVELS for which in "GS"))


def own_jobs(study: Study) -> list[Job]:
    """Return all attacker-data deletions at twice the bound, both precisions, all levels."""
    return [job for heads in HEADS for level in LEVELS for job in own_deletions(study, heads, level)]


def _rows(studies: Sequence[Study], results: Results) -> list[Row]:
    rows = []
    for study in studies:
        for heads in HEADS:
            cells: dict[str, Value | None] = {}
            count = 0
            for level in LEVELS:
                trials = [results[job] for job in own_deletions(study, heads, level)]
                count += len(trials)
                cells[f"{level} G"] = errors(trials, "relerr_moment")
                cells[f"{level} S"] = errors(trials, "relerr_gram")
                if level == "sample":
                    cells["sample labels"] = labels(trials)
                    cells |= rank_one(trials)
            rows.append(Row(study.data, study.source.title, heads, cells, count))
    return rows


TABLE = Table(
    "attacker_data",
    "Deletion recovery, attacker data (short form)",
    (*_COLUMNS, "rank-one labels", "rank-one feature error"),
    own_jobs,
    _rows,
)
