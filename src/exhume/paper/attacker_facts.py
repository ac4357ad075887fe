"""What the text says about the attacker-data experiment: who can attack, with how many rows, at what cost and rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from exhume.paper.attacker_complete import bound_jobs
from exhume.paper.attacker_data import own_jobs
from exhume.paper.plan import Study
from exhume.paper.table import Results, Row, Table, own_cell, own_deletions, split
from exhume.paper.values import Number, Range, Value
from exhume.paper.work import Gate, Job, State

__all__ = ["TABLE"]

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


def _gates(study: Study) -> list[Job]:
    return [Job(study.source, Gate(split(study, seed))) for seed in study.own_seeds]


def _states(study: Study) -> list[Job]:
    return [Job(study.source, State(own_cell(study, "float64", seed))) for seed in study.own_seeds]


def _jobs(study: Study) -> list[Job]:
    return [*_gates(study), *_states(study), *bound_jobs(study), *own_jobs(study)]


def _rate(study: Study, results: Results, seed: int) -> float:
    trials = [results[job] for job in own_deletions(study, "float32", "sample", [seed])]
    right = [t["difference"] is not None and bool(t["difference"]["label_correct"]) for t in trials]
    return 100 * float(np.mean(right))


def _rows(studies: Sequence[Study], results: Results) -> list[Row]:
    rows = []
    for study in studies:
        gates = [results[job] for job in _gates(study)]
        m = 2 * study.bound
        posts = [results[job]["post"] for job in bound_jobs(study)]
        first = results[own_deletions(study, "float64", "sample")[0]]
        batches = [size for g in gates for size in (g["attacker_rows"] // m, -(-g["attacker_rows"] // m))]
        cells: dict[str, Value | None] = {
            "usable clients": Range.of(g["usable"] for g in gates),
            "attacker rows": Range.of(g["attacker_rows"] for g in gates),
            "batch rows": Range.of(batches),
            "median κ(X)": Number(float(np.median([results[j]["diagnostics"]["kappa_X"] for j in _states(study)]))),
            "float32 labels by seed, %": Range.of(_rate(study, results, seed) for seed in study.own_seeds),
            "post-state rank at the bound": Range.of(p["rank_X"] for p in posts if p is not None),
            # The attacker's own count, and the honest deletion's message.
            "messages": Number(first["cost"]["messages"] + 1),
            "responses": Number(first["cost"]["responses"]),
        }
        rows.append(Row(study.data, study.source.title, f"m = {m}", cells, len(gates)))
    return rows


TABLE = Table("attacker_facts", "The attacker-data experiment: gate, sizes, conditioning, cost", _COLUMNS, _jobs, _rows)
