"""Figure: test accuracy during ten sequential class deletions, honest and attacked branch, designed probe, float64.

After the last deletion the honest ledger holds rounding residue only, so the honest accuracy there is that of noise;
where features have so few bits that sums are exact (float16), it holds nothing, and a zero head says class 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from exhume.paper.study import Study
from exhume.paper.table import Results, Table, TableRow, designed_cell, row
from exhume.paper.values import Number
from exhume.paper.work import Job, SequentialDeletions
from exhume.plotting import BLUE, VERMILION, panels, save

__all__ = ["TABLES"]


def _job(study: Study) -> Job:
    return Job(study.source, SequentialDeletions(designed_cell(study), "class", study.seed))


def _jobs(study: Study) -> list[Job]:
    return [_job(study)]


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        steps = results[_job(study)]["steps"]
        cells = {
            "final honest accuracy, %": Number(100 * steps[-1]["honest"]),
            "final attacked accuracy, %": Number(100 * steps[-1]["attacked"]),
            "final head error": Number(steps[-1]["head_error"]),
        }
        rows.append(row(study, "all classes", cells, len(steps)))
    return rows


def _draw(studies: Sequence[Study], results: Results, path: Path) -> None:
    with panels(len(studies)) as (figure, axes):
        for axis, study in zip(axes, studies, strict=True):
            found = results[_job(study)]
            rounds = range(len(found["steps"]) + 1)
            for branch, colour, marker in (("attacked", BLUE, "o"), ("honest", VERMILION, "s")):
                curve = [100 * found["start"], *(100 * step[branch] for step in found["steps"])]
                axis.plot(rounds, curve, color=colour, marker=marker, markersize=4, label=branch)
            axis.set(xlabel="classes deleted", ylim=(0, 102))
            axis.set_title(study.title)
        axes[0].set_ylabel("test accuracy, %")
        axes[0].legend(loc="lower left")
        save(figure, path)


TABLES = (
    Table(
        "class_replay",
        "Sequential class deletions with replay, designed probe, float64",
        ("final honest accuracy, %", "final attacked accuracy, %", "final head error"),
        _jobs,
        _rows,
        _draw,
        order=160,
    ),
)
