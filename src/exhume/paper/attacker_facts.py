"""What the text says about the attacker-data experiment: who can attack, with how many rows, at what cost and rank.

The row at the lower bound of responses has the ranks there: of the states before any deletion, and of those after the
deletion of a class, beside what the labels of the batches predict (`attacker_complete`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from exhume.paper.attacker_complete import bound_jobs, expected_jobs
from exhume.paper.attacker_data import own_jobs
from exhume.paper.study import Study
from exhume.paper.table import Results, Table, TableRow, own_deletions, own_states, row, usable_jobs
from exhume.paper.values import Count, Number, Range, Value
from exhume.paper.work import Job

__all__ = ["TABLES"]

_COLUMNS = (
    "usable clients",
    "attacker rows",
    "batch rows",
    "median κ(X)",
    "float32 labels by seed, %",
    "messages",
    "responses",
    "pre-states of full rank",
    "post-state rank",
    "post-states of the lowest rank",
    "ranks as predicted",
)


def _jobs(study: Study) -> list[Job]:
    states = [*own_states(study), *own_states(study, study.bound)]
    return [*usable_jobs(study), *states, *bound_jobs(study), *expected_jobs(study), *own_jobs(study)]


def _rate(study: Study, results: Results, seed: int) -> float:
    trials = [results[job] for job in own_deletions(study, "float32", "record", [seed])]
    right = [t["difference"] is not None and bool(t["difference"]["label_correct"]) for t in trials]
    return 100 * float(np.mean(right))


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        gates = [results[job] for job in usable_jobs(study)]
        m = 2 * study.bound
        first = results[own_deletions(study, "float64", "record")[0]]
        batches = [size for g in gates for size in (g["attacker_rows"] // m, -(-g["attacker_rows"] // m))]
        cells: dict[str, Value | None] = {
            "usable clients": Range.of(g["usable"] for g in gates),
            "attacker rows": Range.of(g["attacker_rows"] for g in gates),
            "batch rows": Range.of(batches),
            "median κ(X)": Number(float(np.median([results[j]["diagnostics"]["kappa_X"] for j in own_states(study)]))),
            "float32 labels by seed, %": Range.of(_rate(study, results, seed) for seed in study.own_seeds),
            # The attacker's own count, and the honest deletion's message.
            "messages": Number(first["cost"]["messages"] + 1),
            "responses": Number(first["cost"]["responses"]),
        }
        rows.append(row(study, f"m = {m}", cells, len(gates)))
        rows.append(row(study, f"m = {study.bound}", _ranks(study, results), len(bound_jobs(study))))
    return rows


def _ranks(study: Study, results: Results) -> dict[str, Value | None]:
    """Return the ranks at the lower bound of responses; a post-state without diagnostics has none."""
    pre = [results[job]["diagnostics"] for job in own_states(study, study.bound)]
    posts = [results[job]["post"] for job in bound_jobs(study)]
    found = [None if post is None else int(post["rank_X"]) for post in posts]
    lowest = study.bound * (study.c - 1)
    expected = [results[job]["rank"] for job in expected_jobs(study)]
    return {
        "pre-states of full rank": Count.over([p is not None and p["rank_X"] == study.d for p in pre]),
        "post-state rank": Range.of(rank for rank in found if rank is not None),
        "post-states of the lowest rank": Count.over([rank == lowest for rank in found]),
        "ranks as predicted": Count.over([rank == other for rank, other in zip(found, expected, strict=True)]),
    }


TABLES = (
    Table(
        "attacker_facts",
        "The attacker-data experiment: gate, sizes, conditioning, cost",
        _COLUMNS,
        _jobs,
        _rows,
        order=60,
    ),
)
