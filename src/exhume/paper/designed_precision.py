"""Deletion recovery with the designed probe, float32 heads.

The same deletions as in `designed_recovery`; each client is deleted from the ledger of everybody's rows. Only returned
heads and baselines are rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.cells import Pick
from exhume.paper.designed_recovery import COLUMNS, level_cells, sample_jobs
from exhume.paper.plan import Study
from exhume.paper.table import Results, Row, Table, class_picks, deletions, designed_cell
from exhume.paper.work import Job

__all__ = ["TABLE"]


def _levels(study: Study) -> dict[str, list[Job]]:
    cell = designed_cell(study, "float32")
    clients = [
        Pick("client", k, seed) for seed in study.partition_seeds for k in range(min(study.plan.clients, study.members))
    ]
    return {
        "sample": sample_jobs(study, "float32"),
        "class": deletions(study, cell, class_picks(study)),
        "client": deletions(study, cell, clients),
    }


def _jobs(study: Study) -> list[Job]:
    return [job for jobs in _levels(study).values() for job in jobs]


def _rows(studies: Sequence[Study], results: Results) -> list[Row]:
    return [
        Row(
            study.data,
            study.source.title,
            level,
            level_cells([results[job] for job in jobs], level == "sample", interval=True),
            len(jobs),
        )
        for study in studies
        for level, jobs in _levels(study).items()
    ]


TABLE = Table("designed_precision", "Deletion recovery, designed probe, float32 heads", COLUMNS, _jobs, _rows)
