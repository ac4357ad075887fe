"""Deletion recovery with the designed probe, float32 heads.

The same deletions as in `designed_recovery`; each client is deleted from the ledger of everybody's rows. Only returned
heads and baselines are rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.cells import Victim
from exhume.paper.designed_recovery import COLUMNS, kind_cells, record_jobs
from exhume.paper.study import Study
from exhume.paper.table import IN_PAPER, Results, Table, TableRow, class_victims, deletions, designed_cell, row
from exhume.paper.work import Job

__all__ = ["TABLES"]


def _kinds(study: Study) -> dict[str, list[Job]]:
    cell = designed_cell(study, "float32")
    clients = [
        Victim("client", k, seed)
        for seed in study.partition_seeds
        for k in range(min(study.sizes.clients, study.members))
    ]
    return {
        "record": record_jobs(study, "float32"),
        "class": deletions(study, cell, class_victims(study)),
        "client": deletions(study, cell, clients),
    }


def _jobs(study: Study) -> list[Job]:
    return [job for jobs in _kinds(study).values() for job in jobs]


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    return [
        row(
            study,
            IN_PAPER[kind],
            kind_cells([results[job] for job in jobs], kind == "record", interval=True),
            len(jobs),
        )
        for study in studies
        for kind, jobs in _kinds(study).items()
    ]


TABLES = (
    Table("designed_precision", "Deletion recovery, designed probe, float32 heads", COLUMNS, _jobs, _rows, order=30),
)
