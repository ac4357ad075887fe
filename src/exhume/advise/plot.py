"""Two figures, a line per defence: leak beside cost, and the matrix behind it."""

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

__all__ = ["draw", "draw_cells"]


def draw(
    rows: Sequence[Advised],
    chosen: Advised | None,
    needs: Needs,
    chance: float,
    stem: Path,
    title: str,
) -> list[Path]:
    """Write ``stem``.png and ``stem``.svg, leak beside cost; returns the paths."""
    rows = _by_leak(rows)
    figure = Figure(figsize=(10, 0.25 * len(rows) + 2.6), layout="constrained")
    leak, lost, late, refused = figure.subplots(1, 4, sharey=True, width_ratios=(2.2, 1.2, 0.9, 0.9))
    colours = [_colour(row, chosen, needs) for row in rows]
    _leak(leak, rows, colours, chance)
    _bars(lost, [row.accuracy_lost for row in rows], colours, "accuracy lost\n(points)", needs.max_accuracy_loss, 0.3)
    _bars(late, [row.staleness for row in rows], colours, "heads late\n(changes)", needs.max_staleness, 1.0)
    shares = [100 * row.refused / max(row.sent, 1) for row in rows]
    _bars(refused, shares, colours, "honest messages\nrefused (%)", 0.0, 1.0)
    leak.set_yticks(range(len(rows)), [row.defence for row in rows], fontsize=8)
    for tick, colour in zip(leak.get_yticklabels(), colours, strict=True):
        tick.set_color(colour)
    leak.set_ylim(len(rows) - 0.5, -0.5)
    figure.suptitle(f"{title} (green: recommended, grey: not affordable)", fontsize=10)
    return _saved(figure, stem)


def draw_cells(records: Sequence[CellResult], rows: Sequence[Advised], stem: Path, title: str) -> list[Path]:
    """Write ``stem``.png and ``stem``.svg: what each attack reads, on a quiet server and on a busy one, if any did."""
    halves = [[r for r in records if r.score is not None and not r.score.damage and r.busy == b] for b in (False, True)]
    names = [list(dict.fromkeys(record.attack for record in half)) for half in halves]
    shown = [(half, attacks) for half, attacks in zip(halves, names, strict=True) if attacks]
    if not shown:
        return []
    rows = _by_leak(rows)
    widths = [len(attacks) for _, attacks in shown]
    size = (0.36 * sum(widths) + 2.6, 0.25 * len(rows) + 2.4)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(shown), sharey=True, width_ratios=widths, squeeze=False)[0]
    for axes, (half, attacks) in zip(panels, shown, strict=True):
        _matrix(axes, half, attacks, [row.defence for row in rows])
        axes.set_title("honest updates in between" if half[0].busy else "quiet server", fontsize=9)
    panels[0].set_yticks(range(len(rows)), [row.defence for row in rows], fontsize=8)
    figure.suptitle(f"{title}: labels read, % (replay: put back)", fontsize=10)
    return _saved(figure, stem)


def _by_leak(rows: Sequence[Advised]) -> list[Advised]:
    return sorted(rows, key=lambda row: -1.0 if math.isnan(row.label_rate) else row.label_rate)


def _saved(figure: Figure, stem: Path) -> list[Path]:
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
        "dashed: chance; orange: what could be missed",
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


def _matrix(axes: Any, records: Sequence[CellResult], attacks: Sequence[str], names: Sequence[str]) -> None:
    values = np.full((len(names), len(attacks)), np.nan)
    for r in records:
        if r.score is not None and r.defence in names:
            share = r.score.replay_rate if r.attack == "replay" else r.score.label_rate
            values[names.index(r.defence), attacks.index(r.attack)] = 100 * share
    axes.imshow(values, cmap="cividis", vmin=0, vmax=100, aspect="auto")
    for i, j in np.argwhere(np.isfinite(values)):
        shade = "black" if values[i, j] > 60 else "white"
        axes.text(j, i, f"{values[i, j]:.0f}", ha="center", va="center", fontsize=6.5, color=shade)
    axes.set_xticks(range(len(attacks)), attacks, rotation=60, ha="right", fontsize=8)
