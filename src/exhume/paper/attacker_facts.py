"""What the text says about the attacker-data experiment: who can attack, with how many rows, at what cost and rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from exhume.paper.attacker_complete import bound_jobs
from exhume.paper.attacker_data import own_jobs
from exhume.paper.study import Study
from exhume.paper.table import Results, Table, TableRow, own_deletions, own_states, row, usable_jobs
from exhume.paper.values import Number, Range, Value
from exhume.paper.work import Job

__all__ = ["TABLES"]

_COLUMNS = (
    "usable clients",
    "attacker rows",
    "batch rows",
    "median κ(X)",
    "float32 labels by seed, %",
    "post-state rank at the bound",
    "messages",
    "responses",
)


def _jobs(study: Study) -> list[Job]:
    return [*usable_jobs(study), *own_states(study), *bound_jobs(study), *own_jobs(study)]


def _rate(study: Study, results: Results, seed: int) -> float:
    trials = [results[job] for job in own_deletions(study, "float32", "record", [seed])]
    right = [t["difference"] is not None and bool(t["difference"]["label_correct"]) for t in trials]
    return 100 * float(np.mean(right))


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        gates = [results[job] for job in usable_jobs(study)]
        m = 2 * study.bound
        posts = [results[job]["post"] for job in bound_jobs(study)]
        first = results[own_deletions(study, "float64", "record")[0]]
        batches = [size for g in gates for size in (g["attacker_rows"] // m, -(-g["attacker_rows"] // m))]
        cells: dict[str, Value | None] = {
            "usable clients": Range.of(g["usable"] for g in gates),
            "attacker rows": Range.of(g["attacker_rows"] for g in gates),
            "batch rows": Range.of(batches),
            "median κ(X)": Number(float(np.median([results[j]["diagnostics"]["kappa_X"] for j in own_states(study)]))),
            "float32 labels by seed, %": Range.of(_rate(study, results, seed) for seed in study.own_seeds),
            "post-state rank at the bound": Range.of(p["rank_X"] for p in posts if p is not None),
            # The attacker's own count, and the honest deletion's message.
            "messages": Number(first["cost"]["messages"] + 1),
            "responses": Number(first["cost"]["responses"]),
        }
        rows.append(row(study, f"m = {m}", cells, len(gates)))
    return rows


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
