"""Per-message detectability of attacker-data additions by a norm threshold matched to the batch size.

What an honest addition is, the paper leaves open; here it is a batch of rows of one honest client, the client drawn
uniformly (`exhume.paper.messages.NormDetection`), which reproduces the published median ratio. Cancellations and replay
are left out, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.messages import NormDetection
from exhume.paper.study import Study
from exhume.paper.table import Results, Table, TableRow, row, split
from exhume.paper.values import Count, Number, Value
from exhume.paper.work import Job

__all__ = ["TABLES"]


def _job(study: Study) -> Job:
    splits = tuple(split(study, seed) for seed in study.own_seeds)
    spec = NormDetection(splits, 2 * study.bound, study.sizes.calibration, study.sizes.held_out, study.seed)
    return Job(study.source, spec)


def _jobs(study: Study) -> list[Job]:
    return [_job(study)]


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        found = results[_job(study)]
        cells: dict[str, Value | None] = {
            "false positives, %": Number(100 * found["false_positives"] / found["held_out"]),
            "flagged": Count(found["flagged"], found["sent"]),
            "median ratio": Number(found["median_ratio"]),
        }
        rows.append(row(study, "additions", cells, found["held_out"]))
    return rows


TABLES = (
    Table(
        "detectability",
        "Per-message detectability of attacker-data additions",
        ("false positives, %", "flagged", "median ratio"),
        _jobs,
        _rows,
        order=130,
    ),
)
