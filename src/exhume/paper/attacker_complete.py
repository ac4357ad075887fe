"""Deletion recovery from the attacker's own rows, complete form: both response counts, precisions, all kinds.

At the lower bound of responses (m = 52) only classes are deleted, from float64 heads. There a batch moves c - 1 columns
of the head until the deleted class comes back with the first batch that holds it, so the rank is min(d, m (c - 1) + m -
batches before that one); "predicted success" counts the deletions for which that is d, from the batches' labels alone.
Intervals are Clopper-Pearson over pooled trials, descriptive as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.attacker_data import own_jobs
from exhume.paper.counting import ExpectedRank
from exhume.paper.designed_recovery import COLUMNS, kind_cells
from exhume.paper.study import Study
from exhume.paper.table import (
    IN_PAPER,
    KINDS,
    PRECISIONS,
    Results,
    Table,
    TableRow,
    class_victims,
    deletions,
    own_cell,
    own_deletions,
    row,
)
from exhume.paper.values import Count
from exhume.paper.work import Job

__all__ = ["TABLES", "bound_jobs", "expected_jobs"]

_PREDICTED = "predicted success"


def bound_jobs(study: Study) -> list[Job]:
    """Return the class deletions at the lower bound of responses."""
    return [
        job
        for seed in study.own_seeds
        for job in deletions(study, own_cell(study, "float64", seed, study.bound), class_victims(study))
    ]


def expected_jobs(study: Study) -> list[Job]:
    """Return the ranks that the batches' labels predict, in the order of `bound_jobs`."""
    return [
        Job(study.source, ExpectedRank(own_cell(study, "float64", seed, study.bound), victim.number))
        for seed in study.own_seeds
        for victim in class_victims(study)
    ]


def _cases(study: Study) -> dict[str, list[Job]]:
    cases = {f"float64, m = {study.bound}, class": bound_jobs(study)}
    for precision in PRECISIONS:
        for kind in KINDS:
            cases[f"{precision}, m = {2 * study.bound}, {IN_PAPER[kind]}"] = own_deletions(study, precision, kind)
    return cases


def _jobs(study: Study) -> list[Job]:
    return [*bound_jobs(study), *expected_jobs(study), *own_jobs(study)]


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        for name, jobs in _cases(study).items():
            cells = kind_cells([results[job] for job in jobs], name.endswith(IN_PAPER["record"]), interval=True)
            if jobs == bound_jobs(study):
                ranks = [results[job]["rank"] for job in expected_jobs(study)]
                cells[_PREDICTED] = Count.over([rank == study.d for rank in ranks])
            rows.append(row(study, name, cells, len(jobs)))
    return rows


TABLES = (
    Table(
        "attacker_complete",
        "Deletion recovery, attacker data (complete form)",
        (COLUMNS[0], _PREDICTED, *COLUMNS[1:]),
        _jobs,
        _rows,
        order=50,
    ),
)
