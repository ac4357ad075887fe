"""Deletion recovery from the attacker's own rows, short form: twice the lower bound of responses (m = 104).

Splits, batch permutations and targets come from seeds 0 to 4, each by a fresh ``default_rng(seed)``; the paper states
the seeds but not the permutation. Targets: 100 rows and 20 clients that the attacker does not hold, all ten classes.
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.study import Study
from exhume.paper.table import (
    IN_PAPER,
    KINDS,
    PRECISIONS,
    Results,
    Table,
    TableRow,
    errors,
    labels,
    own_deletions,
    rank_one,
    row,
)
from exhume.paper.values import Value
from exhume.paper.work import Job

__all__ = ["TABLES", "own_jobs"]

_COLUMNS = ("sample labels", *(f"{word} {which}" for word in IN_PAPER.values() for which in "GS"))


def own_jobs(study: Study) -> list[Job]:
    """Return all attacker-data deletions at twice the bound, both precisions, all kinds."""
    return [job for precision in PRECISIONS for kind in KINDS for job in own_deletions(study, precision, kind)]


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        for precision in PRECISIONS:
            cells: dict[str, Value | None] = {}
            count = 0
            for kind in KINDS:
                trials = [results[job] for job in own_deletions(study, precision, kind)]
                count += len(trials)
                cells[f"{IN_PAPER[kind]} G"] = errors(trials, "relerr_moment")
                cells[f"{IN_PAPER[kind]} S"] = errors(trials, "relerr_gram")
                if kind == "record":
                    cells["sample labels"] = labels(trials)
                    cells |= rank_one(trials)
            rows.append(row(study, precision, cells, count))
    return rows


TABLES = (
    Table(
        "attacker_data",
        "Deletion recovery, attacker data (short form)",
        (*_COLUMNS, "rank-one labels", "rank-one feature error"),
        own_jobs,
        _rows,
        order=40,
    ),
)
