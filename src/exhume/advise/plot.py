"""Leak against cost, and the matrix behind it, as one figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from exhume.advise.advice import Advised, Needs
from exhume.advise.records import CellResult
from exhume.plotting import BLUE, GREEN, GREY, ORANGE, VERMILION, save

__all__ = ["draw"]


def draw(
    records: Sequence[CellResult],
    rows: Sequence[Advised],
    chosen: Advised | None,
    needs: Needs,
    chance: float,
    stem: Path,
    title: str,
) -> list[Path]:
    """Write ``stem``.png and ``stem``.svg; returns the paths."""
    figure = Figure(figsize=(15, 0.32 * len(rows) + 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    _leak_against_cost(left, rows, chosen, needs, chance)
    _matrix(right, records, rows)
    figure.suptitle(title)
    paths = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    for path in paths:
        save(figure, path, dpi=130)
    return paths


def _leak_against_cost(axes: Any, rows: Sequence[Advised], chosen: Advised | None, needs: Needs, chance: float) -> None:
    spots: dict[tuple[float, float], list[Advised]] = {}
    for row in rows:
        if math.isnan(row.label_rate):  # no reader ran
            continue
        spot = (round(max(row.accuracy_lost, 0.0), 1), round(100 * row.label_rate))
        spots.setdefault(spot, []).append(row)
    for (x, y), here in spots.items():
        for row in here:
            marker = "s" if row.staleness > 0 else "o"
            axes.plot([x], [y], marker, color=_colour(row, chosen, needs), markersize=7)
        # Defences at one spot share one label, a line each, the top one at the spot's height.
        best = min(here, key=lambda row: row is not chosen)
        names = "\n".join(row.defence for row in here)
        axes.annotate(
            names,
            (x, y),
            textcoords="offset points",
            xytext=(7, 5),
            va="top",
            fontsize=6.5,
            color=_colour(best, chosen, needs),
        )
    axes.axhline(100 * chance, color=VERMILION, linewidth=1, linestyle="--")
    axes.axvline(needs.max_accuracy_loss, color=ORANGE, linewidth=1, linestyle=":")
    axes.margins(x=0.25)
    axes.set_ylim(-3, 106)
    axes.set_xlabel("test accuracy lost (points; dotted: what you allow); squares: heads come late")
    axes.set_ylabel("labels recovered by the best attack (%; dashed: chance)")
    axes.set_title("leak against cost (green: recommended, grey: not affordable)", fontsize=9)


def _colour(row: Advised, chosen: Advised | None, needs: Needs) -> str:
    if chosen is not None and row.defence == chosen.defence:
        return GREEN
    return BLUE if row.fits(needs) else GREY


def _matrix(axes: Any, records: Sequence[CellResult], rows: Sequence[Advised]) -> None:
    columns = list(dict.fromkeys((r.attack, r.busy) for r in records if r.score is not None and r.attack != "burn"))
    if not columns:
        axes.set_axis_off()
        return
    names = [row.defence for row in rows]
    values = np.full((len(names), len(columns)), np.nan)
    for r in records:
        if r.score is not None and (r.attack, r.busy) in columns and r.defence in names:
            share = r.score.replay_rate if r.attack == "replay" else r.score.label_rate
            values[names.index(r.defence), columns.index((r.attack, r.busy))] = 100 * share
    axes.imshow(values, cmap="cividis", vmin=0, vmax=100, aspect="auto")
    for i, j in np.argwhere(np.isfinite(values)):
        shade = "black" if values[i, j] > 60 else "white"
        axes.text(j, i, f"{values[i, j]:.0f}", ha="center", va="center", fontsize=6, color=shade)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    labels = [f"{attack}{' *' if busy else ''}" for attack, busy in columns]
    axes.set_xticks(range(len(columns)), labels, rotation=60, ha="right", fontsize=7)
    axes.set_title("labels recovered, % (replay: blocks put back; * with honest updates in between)", fontsize=9)
