"""Sensitivity of float32 response stacks to the rank tolerance, 1e-6 to 1e-10.

For each seed the stack before any deletion and the one after the deletion of class 0 (the paper does not say which).
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.study import Study
from exhume.paper.table import Results, Table, TableRow, own_cell, row
from exhume.paper.values import Count, Range, Value
from exhume.paper.work import TOLERANCES, Job, ResponseStack

__all__ = ["TABLES"]


def _cases(study: Study) -> dict[str, list[Job]]:
    return {
        f"m = {m}": [
            Job(study.source, ResponseStack(own_cell(study, "float32", seed, m), deleted))
            for seed in study.own_seeds
            for deleted in (None, 0)
        ]
        for m in (study.bound, 2 * study.bound)
    }


def _jobs(study: Study) -> list[Job]:
    return [job for jobs in _cases(study).values() for job in jobs]


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        for name, jobs in _cases(study).items():
            stacks = [results[job] for job in jobs]
            cells: dict[str, Value | None] = {
                f"{tolerance:.0e}": Count.over([s["ranks"][i] == study.d for s in stacks])
                for i, tolerance in enumerate(TOLERANCES)
            }
            cells["σ_min"] = Range.of(s["sigma_min"] for s in stacks)
            rows.append(row(study, name, cells, len(stacks)))
    return rows


TABLES = (
    Table(
        "rank_sensitivity",
        "Full rank of float32 attacker-data stacks by tolerance",
        (*(f"{t:.0e}" for t in TOLERANCES), "σ_min"),
        _jobs,
        _rows,
        order=70,
    ),
)
