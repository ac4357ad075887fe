"""What a table or figure is, and the cells and summaries that several of them share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from exhume.paper.cells import CellSpec, Split, Victim
from exhume.paper.study import Study
from exhume.paper.values import Count, Mean, Value
from exhume.paper.work import AttackedDeletion, Job, Result, SequentialDeletions, StateBefore, UsableClients

__all__ = [
    "IN_PAPER",
    "KINDS",
    "PRECISIONS",
    "TARGET_SEED",
    "Results",
    "Table",
    "TableRow",
    "class_victims",
    "deletions",
    "designed_cell",
    "designed_walks",
    "errors",
    "labels",
    "own_cell",
    "own_deletions",
    "own_states",
    "rank_one",
    "row",
    "split",
    "successes",
    "usable_jobs",
]

IN_PAPER = {"record": "sample", "class": "class", "client": "client"}
"""Kinds of deletion, each with the paper's word for it, which rows and columns keep."""
KINDS = tuple(IN_PAPER)
PRECISIONS = ("float64", "float32")
TARGET_SEED = 7
"""The paper's seed for the records that the designed probe deletes."""

Results = Mapping[Job, Result]


@dataclass(frozen=True)
class TableRow:
    """One measured row: the data and encoder it belongs to, its name, and a value per column."""

    data: str
    encoder: str
    name: str
    cells: Mapping[str, Value | None]
    trials: int


@dataclass(frozen=True)
class Table:
    """One table or figure of the paper.

    Attributes
    ----------
    name, title : str
        Name in the registry and heading.
    columns : tuple of str
        In the order of the page.
    jobs : callable
        The work that one study needs.
    rows : callable
        From studies and results to measured rows.
    draw : callable, optional
        Draws the figure of all studies to a file; a table has none.
    order : float
        Its place on the page, among the orders of the others.
    lacks : callable, optional
        Says what a study lacks for it to run, in words; None if nothing.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    jobs: Callable[[Study], list[Job]]
    rows: Callable[[Sequence[Study], Results], list[TableRow]]
    draw: Callable[[Sequence[Study], Results, Path], None] | None = None
    order: float = math.inf
    lacks: Callable[[Study], str | None] | None = None


def row(study: Study, name: str, cells: Mapping[str, Value | None], trials: int) -> TableRow:
    """Return a row of one study."""
    return TableRow(study.data, study.source.title, name, cells, trials)


def split(study: Study, seed: int) -> Split:
    """Return the split of a seed with the study's number of clients."""
    return Split(seed, study.members, study.alpha)


def designed_cell(study: Study, precision: str = "float64", scale: float = 1e4, clipped: bool = False) -> CellSpec:
    """Return the designed probe against the server with everybody's rows."""
    return CellSpec("designed", precision, split(study, study.seed), scale=scale, clipped=clipped)


def own_cell(study: Study, precision: str, seed: int, responses: int | None = None) -> CellSpec:
    """Return the attacker-data probe of one split; ``responses`` is twice the lower bound unless told."""
    count = 2 * study.bound if responses is None else responses
    return CellSpec("own_data", precision, split(study, seed), responses=count, sequence=seed)


def usable_jobs(study: Study) -> list[Job]:
    """Return the full-rank gate of every attacker-data split."""
    return [Job(study.source, UsableClients(split(study, seed))) for seed in study.own_seeds]


def own_states(study: Study, responses: int | None = None) -> list[Job]:
    """Return the identifications from attacker data, float64, one job per split."""
    return [Job(study.source, StateBefore(own_cell(study, "float64", seed, responses))) for seed in study.own_seeds]


def class_victims(study: Study) -> list[Victim]:
    """Return the deletions of whole classes."""
    return [Victim("class", k) for k in range(study.classes)]


def deletions(study: Study, cell: CellSpec, victims: Iterable[Victim]) -> list[Job]:
    """Return one job per deletion."""
    return [Job(study.source, AttackedDeletion(cell, victim)) for victim in victims]


def designed_walks(study: Study) -> list[Job]:
    """Return the sequential client deletions, float64, one job per partition."""
    cell = designed_cell(study)
    return [Job(study.source, SequentialDeletions(cell, "client", seed)) for seed in study.partition_seeds]


def own_deletions(study: Study, precision: str, kind: str, seeds: Iterable[int] | None = None) -> list[Job]:
    """Return the attacker-data deletions of one kind, pooled over the seeds."""
    sizes = study.sizes
    jobs: list[Job] = []
    for seed in study.own_seeds if seeds is None else seeds:
        victims = {
            "record": [Victim("record", i, seed, others=True) for i in range(sizes.own_records)],
            "class": class_victims(study),
            "client": [
                Victim("client", i, seed, others=True) for i in range(min(sizes.own_clients, study.members - 1))
            ],
        }[kind]
        jobs += deletions(study, own_cell(study, precision, seed), victims)
    return jobs


def successes(trials: Sequence[Result]) -> Count:
    """Count the trials whose two states were identified."""
    return Count.over([bool(t["identified"]) for t in trials])


def errors(trials: Sequence[Result], what: str) -> Mean | None:
    """Average a relative error of the differenced block over the successful trials: ``relerr_gram`` or its like."""
    return Mean.of(t["difference"][what] for t in trials if t["identified"])


def labels(trials: Sequence[Result], method: str = "difference", interval: bool = False) -> Count:
    """Count the labels that were right; a failed attack has none."""
    return Count.over([t[method] is not None and bool(t[method]["label_correct"]) for t in trials], interval)


def rank_one(trials: Sequence[Result], interval: bool = False) -> dict[str, Value | None]:
    """Return the columns that the paper does not have: the rank-one recovery at the same responses."""
    right = [t["rank_one"] for t in trials if t["rank_one"] is not None and t["rank_one"]["label_correct"]]
    return {
        "rank-one labels": labels(trials, "rank_one", interval),
        "rank-one feature error": Mean.of(r["relerr_feature"] for r in right),
    }
