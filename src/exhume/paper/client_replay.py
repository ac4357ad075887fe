"""Figure: test accuracy during 50 sequential client deletions over 20 partitions, with the median; float64.

The state is identified anew before every deletion, as the paper's program does, so replay errors add up over rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from exhume.paper.study import Study
from exhume.paper.table import Results, Table, TableRow, designed_walks, row
from exhume.paper.values import Mean, Number, Value
from exhume.plotting import BLUE, VERMILION, panels, save

__all__ = ["TABLES"]


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        last = [results[job]["steps"][-1] for job in designed_walks(study)]
        cells: dict[str, Value | None] = {
            "final head error": Mean.of(step["head_error"] for step in last),
            "median final honest accuracy, %": Number(100 * float(np.median([step["honest"] for step in last]))),
            "median final attacked accuracy, %": Number(100 * float(np.median([step["attacked"] for step in last]))),
        }
        rows.append(row(study, "all clients", cells, len(last)))
    return rows


def _draw(studies: Sequence[Study], results: Results, path: Path) -> None:
    with panels(len(studies)) as (figure, axes):
        for axis, study in zip(axes, studies, strict=True):
            chains = [results[job] for job in designed_walks(study)]
            for branch, colour in (("attacked", BLUE), ("honest", VERMILION)):
                curves = [[100 * c["start"], *(100 * step[branch] for step in c["steps"])] for c in chains]
                for curve in curves:
                    axis.plot(curve, color=colour, linewidth=0.5, alpha=0.35)
                axis.plot(np.median(curves, axis=0), color=colour, linewidth=2, label=f"{branch} (median)")
            axis.set(xlabel="clients deleted", ylim=(0, 102))
            axis.set_title(study.title)
        axes[0].set_ylabel("test accuracy, %")
        axes[0].legend(loc="lower left")
        save(figure, path)


TABLES = (
    Table(
        "client_replay",
        "Sequential client deletions with replay, designed probe, float64",
        ("final head error", "median final honest accuracy, %", "median final attacked accuracy, %"),
        designed_walks,
        _rows,
        _draw,
        order=170,
    ),
)
