"""Deletion recovery from the attacker's own rows, complete form: both response counts, both precisions, every level.

At the lower bound of responses (m = 52) only classes are deleted, from float64 heads. Intervals are Clopper-Pearson
over pooled trials, descriptive as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.attacker_data import own_jobs
from exhume.paper.designed_recovery import COLUMNS, level_cells
from exhume.paper.plan import Study
from exhume.paper.table import HEADS, LEVELS, Results, Row, Table, class_picks, deletions, own_cell, own_deletions
from exhume.paper.work import Job

__all__ = ["TABLE", "bound_jobs"]


def bound_jobs(study: Study) -> list[Job]:
    """Return the class deletions at the lower bound of responses."""
    return [
        job
        for seed in study.own_seeds
        for job in deletions(study, own_cell(study, "float64", seed, study.bound), class_picks(study))
    ]


def _cases(study: Study) -> dict[str, list[Job]]:
    cases = {f"float64, m = {study.bound}, class": bound_jobs(study)}
    for heads in HEADS:
        for level in LEVELS:
            cases[f"{heads}, m = {2 * study.bound}, {level}"] = own_deletions(study, heads, level)
    return cases


def _jobs(study: Study) -> list[Job]:
    return [*bound_jobs(study), *own_jobs(study)]


def _rows(studies: Sequence[Study], results: Results) -> list[Row]:
    return [
        Row(
            study.data,
            study.source.title,
            name,
            level_cells([results[job] for job in jobs], name.endswith("sample"), interval=True),
            len(jobs),
        )
        for study in studies
        for name, jobs in _cases(study).items()
    ]


TABLE = Table("attacker_complete", "Deletion recovery, attacker data (complete form)", COLUMNS, _jobs, _rows)
