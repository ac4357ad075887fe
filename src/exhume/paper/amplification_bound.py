"""Figure: measured error of the deleted gram against the amplification bound, run by run.

All attacker-data record and class deletions at twice the lower bound of responses, both precisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from exhume.paper.study import Study
from exhume.paper.table import IN_PAPER, PRECISIONS, Results, Table, TableRow, own_deletions
from exhume.paper.values import Count, Number, Range, Value
from exhume.paper.work import Job
from exhume.plotting import GREY, PALETTE, panels, save

__all__ = ["TABLES"]

_KINDS = ("record", "class")


def _jobs(study: Study) -> list[Job]:
    return [job for precision in PRECISIONS for kind in _KINDS for job in own_deletions(study, precision, kind)]


def _points(study: Study, results: Results, precision: str, kind: str) -> list[tuple[float, float]]:
    done = [r for r in (results[job] for job in own_deletions(study, precision, kind)) if r["identified"]]
    return [(r["bound"], r["difference"]["relerr_gram"]) for r in done]


def _statistics(groups: list[list[tuple[float, float]]]) -> dict[str, Value | None]:
    ratios = [[error / bound for bound, error in group] for group in groups if group]
    pooled = np.concatenate(ratios)
    medians = [float(np.median(r)) for r in ratios]
    low, high = np.percentile(pooled, [5, 95])
    return {
        "below the bound": Count(int((pooled <= 1 + 1e-9).sum()), len(pooled)),
        "median ratio": Number(float(np.median(pooled))),
        "5-95% ratio": Range(float(low), float(high)),
        "maximum ratio": Number(float(pooled.max())),
        "cell medians": Range(min(medians), max(medians)),
    }


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    groups = [
        [_points(study, results, precision, kind) for precision in PRECISIONS for kind in _KINDS] for study in studies
    ]
    cases = [(study.data, study.source.title, "attacks", part) for study, part in zip(studies, groups, strict=True)]
    if len(studies) > 1:
        pooled = [group for part in groups for group in part]
        cases.append(("+".join(study.data for study in studies), studies[0].source.title, "pooled", pooled))
    return [
        TableRow(data, encoder, name, _statistics(part), sum(map(len, part)))
        for data, encoder, name, part in cases
        if any(part)
    ]


def _draw(studies: Sequence[Study], results: Results, path: Path) -> None:
    with panels(len(studies), height=3.3) as (figure, axes):
        for axis, study in zip(axes, studies, strict=True):
            everything: list[float] = []
            for i, precision in enumerate(PRECISIONS):
                for j, kind in enumerate(_KINDS):
                    points = _points(study, results, precision, kind)
                    if not points:
                        continue
                    x, y = zip(*points, strict=True)
                    everything += [*x, *y]
                    axis.plot(
                        x,
                        y,
                        ("o", "^")[j],
                        color=PALETTE[2 * j + i],
                        markersize=3,
                        markeredgewidth=0,
                        label=f"{IN_PAPER[kind]}, {precision}",
                    )
            ends = [min(everything) / 2, max(everything) * 2] if everything else [1e-12, 1]
            axis.plot(ends, ends, "--", color=GREY, linewidth=1, label="bound")
            axis.set(xscale="log", yscale="log", xlabel="bound on RelErr(S_del)")
            axis.set_title(study.title)
        axes[0].set_ylabel("measured RelErr(S_del)")
        axes[-1].legend(loc="lower right", handletextpad=0.3, fontsize=8)
        save(figure, path)


TABLES = (
    Table(
        "amplification_bound",
        "Measured deleted-gram error against the amplification bound",
        ("below the bound", "median ratio", "5-95% ratio", "maximum ratio", "cell medians"),
        _jobs,
        _rows,
        _draw,
        order=150,
    ),
)
