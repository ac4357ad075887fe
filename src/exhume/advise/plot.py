"""Leak beside cost, a line per defence, with the matrix behind it, as one figure."""

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
    rows = sorted(rows, key=lambda row: -1.0 if math.isnan(row.label_rate) else row.label_rate)
    figure = Figure(figsize=(17, 0.27 * len(rows) + 3.2), layout="constrained")
    leak, lost, late, refused, cells = figure.subplots(1, 5, sharey=True, width_ratios=(2.2, 1.2, 0.9, 0.9, 5))
    colours = [_colour(row, chosen, needs) for row in rows]
    _leak(leak, rows, colours, chance)
    _bars(lost, [row.accuracy_lost for row in rows], colours, "accuracy lost\n(points)", needs.max_accuracy_loss, 0.3)
    _bars(late, [row.staleness for row in rows], colours, "heads late\n(changes)", needs.max_staleness, 1.0)
    shares = [100 * row.refused / max(row.sent, 1) for row in rows]
    _bars(refused, shares, colours, "honest messages\nrefused (%)", 0.0, 1.0)
    _matrix(cells, records, rows)
    leak.set_yticks(range(len(rows)), [row.defence for row in rows], fontsize=8)
    for tick, colour in zip(leak.get_yticklabels(), colours, strict=True):
        tick.set_color(colour)
    leak.set_ylim(len(rows) - 0.5, -0.5)
    figure.suptitle(f"{title} (green: recommended, grey: not affordable)", fontsize=10)
    paths = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    for path in paths:
        save(figure, path, dpi=130)
    return paths


def _leak(axes: Any, rows: Sequence[Advised], colours: Sequence[str], chance: float) -> None:
    """Draw what the best attack read, how far up that may be, what the run could have detected, and the feature's."""
    for y, (row, colour) in enumerate(zip(rows, colours, strict=True)):
        axes.plot([100 * row.label_rate, 100 * row.label_upper], [y, y], color=colour, linewidth=1.5)
        axes.plot([100 * row.label_rate], [y], "o", color=colour, markersize=6)
        axes.plot([100 * row.known_rate], [y], "D", color=colour, markersize=5, markerfacecolor="none")
        axes.plot([100 * row.detectable], [y], "|", color=ORANGE, markersize=9)
    axes.axvline(100 * chance, color=VERMILION, linewidth=1, linestyle="--")
    axes.set_xlim(-3, 104)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_title("labels read by the best attack (%)", fontsize=9)
    axes.set_xlabel(
        "dot: without the feature, line: to the end of\nits 95% interval; diamond: knows the feature\n"
        "dashed: chance; orange: what could be detected",
        fontsize=7,
    )


def _bars(axes: Any, values: Sequence[float], colours: Sequence[str], title: str, limit: float, least: float) -> None:
    """Draw one cost as a bar per defence, with what the operator allows."""
    axes.barh(range(len(values)), values, color=colours, height=0.6)
    for y, value in enumerate(values):
        text = f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
        axes.annotate(
            text if value else "0", (max(value, 0.0), y), (3, 0), textcoords="offset points", va="center", fontsize=6.5
        )
    top = max([least, limit, *values])
    axes.set_xlim(min(0.0, *values) * 1.2, 1.45 * top)
    axes.axvline(limit, color=ORANGE, linewidth=1, linestyle=":")
    axes.set_title(title, fontsize=9)


def _colour(row: Advised, chosen: Advised | None, needs: Needs) -> str:
    if chosen is not None and row.defence == chosen.defence:
        return GREEN
    return BLUE if row.fits(needs) else GREY


def _matrix(axes: Any, records: Sequence[CellResult], rows: Sequence[Advised]) -> None:
    columns = list(dict.fromkeys((r.attack, r.busy) for r in records if r.score is not None and not r.score.damage))
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
        axes.text(j, i, f"{values[i, j]:.0f}", ha="center", va="center", fontsize=5.5, color=shade)
    labels = [f"{attack}{' *' if busy else ''}" for attack, busy in columns]
    axes.set_xticks(range(len(columns)), labels, rotation=60, ha="right", fontsize=7)
    axes.set_title("labels read by each attack, % (replay: put back; *: honest updates in between)", fontsize=9)
