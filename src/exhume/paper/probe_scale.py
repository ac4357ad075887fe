"""Scale of the designed probe: recovery, and how conspicuous the requests are.

Honest requests are deletions of one record: that reading reproduces the published ratio of requests. Both percentiles
are over all training rows. (Over 1,000 rows the head ratio depends on which: benchmarks/solvers.py, part honest.) The
head ratio takes the largest change from one release to the next. The clipped row lowers the scale until the largest
request is as large as an honest one at the 99th percentile. Deleted records are the first 20 of the designed draw.
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.cells import CellSpec, Victim
from exhume.paper.messages import HonestRequests
from exhume.paper.study import Study
from exhume.paper.table import TARGET_SEED, Results, Table, TableRow, deletions, designed_cell, errors, row, successes
from exhume.paper.values import Number, Value
from exhume.paper.work import Job, StateBefore

__all__ = ["TABLES"]

_SCALES = (1e0, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12)


def _cells(study: Study) -> dict[str, CellSpec]:
    cells = {f"τ = {scale:.0e}": designed_cell(study, scale=scale) for scale in _SCALES}
    return {**cells, "clipped": designed_cell(study, clipped=True)}


def _trials(study: Study, cell: CellSpec) -> list[Job]:
    victims = [Victim("record", i, TARGET_SEED + study.seed) for i in range(study.sizes.scale_records)]
    return deletions(study, cell, victims)


def _honest(study: Study) -> Job:
    return Job(study.source, HonestRequests())


def _jobs(study: Study) -> list[Job]:
    jobs = [_honest(study)]
    for cell in _cells(study).values():
        jobs += [Job(study.source, StateBefore(cell)), *_trials(study, cell)]
    return jobs


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        honest = results[_honest(study)]
        for name, cell in _cells(study).items():
            state = results[Job(study.source, StateBefore(cell))]
            trials = [results[job] for job in _trials(study, cell)]
            gram, moment = errors(trials, "relerr_gram"), errors(trials, "relerr_moment")
            error = state["state_error"]
            cells: dict[str, Value | None] = {
                "success": successes(trials),
                "RelErr(A)": None if error is None else Number(error),
                "RelErr(A) after": Number.mean([t["state_post"] for t in trials if t["identified"]]),
                "RelErr(S)": None if gram is None else Number(gram.mean),
                "RelErr(G)": None if moment is None else Number(moment.mean),
                "update ratio": Number(state["request"] / honest["request_p99"]),
                "head ratio": Number(state["head_change"] / honest["head_p99"]),
            }
            rows.append(row(study, name, cells, len(trials)))
    return rows


TABLES = (
    Table(
        "probe_scale",
        "Designed-probe scale: recovery and size against honest requests",
        ("success", "RelErr(A)", "RelErr(A) after", "RelErr(S)", "RelErr(G)", "update ratio", "head ratio"),
        _jobs,
        _rows,
        order=120,
    ),
)
