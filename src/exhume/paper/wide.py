"""Tables with more columns than a person can follow: a figure with a panel a column, and a narrow table beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from exhume.paper.comparisons import Comparison
from exhume.paper.feature_source import heading
from exhume.paper.values import Count, Mean, Number, Range, Value
from exhume.plotting import BLUE, VERMILION

__all__ = ["BARS", "MOST_COLUMNS", "is_wide", "narrow", "small_panels"]

MOST_COLUMNS = 12
"""A table with more columns than these, those that name the row included, is drawn."""

_BESIDE = 4
"""Columns of a table of the page that are no values: data, row, measured or published, and trials."""
_ACROSS = 3
_SIDES = {"measured": (BLUE, "o", -0.14), "published": (VERMILION, "s", 0.14)}

BARS = "Bars: one standard deviation, or from the smallest to the largest. On logarithmic axes they go upwards only."
"""What the bars of the panels are."""


def is_wide(columns: Sequence[str]) -> bool:
    """Whether the page would have more than `MOST_COLUMNS` columns."""
    return len(columns) + _BESIDE > MOST_COLUMNS


def _entries(cells: Sequence[Comparison]) -> list[tuple[str, str]]:
    """Return data and name of every row."""
    return list(dict.fromkeys((cell.data, cell.row) for cell in cells))


def narrow(cells: Sequence[Comparison], columns: Sequence[str]) -> list[list[str]]:
    """Return the table on its side, title line first: a line a column, measured and then (published).

    Nothing if that is wide as well.
    """
    entries = _entries(cells)
    if len(entries) + 1 > MOST_COLUMNS:
        return []
    found = {(cell.data, cell.row, cell.column): cell for cell in cells}
    titles = ["", *(f"{heading(data)}, {row}" for data, row in entries)]
    lines = [[column, *(_both(found.get((*entry, column))) for entry in entries)] for column in columns]
    trials = {(cell.data, cell.row): str(cell.trials) for cell in cells}
    return [titles, *lines, ["trials", *(trials[entry] for entry in entries)]]


def _both(cell: Comparison | None) -> str:
    if cell is None:
        return "–"
    measured = "–" if cell.measured is None else str(cell.measured)
    return measured if cell.published is None else f"{measured} ({cell.published})"


def small_panels(cells: Sequence[Comparison], columns: Sequence[str]) -> Any:
    """Return a figure with a panel a column: its rows from top to bottom, measured and published values along."""
    from matplotlib.figure import Figure

    from exhume.plotting import style

    shown = [column for column in columns if any(_mark(c.measured) for c in cells if c.column == column)]
    across = min(_ACROSS, len(shown)) or 1
    down = max(1, math.ceil(len(shown) / across))
    most = max((len(_entries([c for c in cells if c.column == column])) for column in shown), default=1)
    with style():
        figure = Figure(figsize=(3.3 * across, (0.75 + 0.24 * most) * down + 0.4))
        grid = figure.subplots(down, across, squeeze=False)
        for axis, column in zip(grid.flat, shown, strict=False):
            _panel(axis, [cell for cell in cells if cell.column == column], column)
        for axis in grid.flat[len(shown) :]:
            axis.set_axis_off()
        handles, names = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=2)
    return figure


def _panel(axis: Any, cells: Sequence[Comparison], column: str) -> None:
    from matplotlib.ticker import MaxNLocator

    entries = _entries(cells)
    places = {entry: place for place, entry in enumerate(entries)}
    marks = [
        (places[cell.data, cell.row] + shift, mark, side)
        for cell in cells
        for side, (_, _, shift) in _SIDES.items()
        if (mark := _mark(getattr(cell, side))) is not None
    ]
    points = [x for _, mark, _ in marks for x in mark.points]
    logarithmic = min(points) > 0 and max(points) > 30 * min(points)
    for side, (colour, marker, _) in _SIDES.items():
        mine = [(y, mark) for y, mark, which in marks if which == side]
        at = [(x, y) for y, mark in mine for x in mark.points]
        axis.plot([x for x, _ in at], [y for _, y in at], marker, color=colour, markersize=4, label=side)
        for y, mark in mine:
            low = mark.points[0] if logarithmic else mark.low
            axis.plot([low, mark.high], [y, y], color=colour, linewidth=1)
    if any(isinstance(cell.measured, Count) for cell in cells):
        axis.set_xlim(-5, 105)
        axis.set_xlabel("% of the trials")
    elif logarithmic:
        axis.set_xscale("log")
    else:
        axis.xaxis.set_major_locator(MaxNLocator(4, integer=all(x == int(x) for x in points)))
    axis.set_yticks(range(len(entries)), [f"{heading(data)}, {row}" for data, row in entries])
    axis.set_ylim(len(entries) - 0.5, -0.5)
    axis.set_title(column)


class _Mark(NamedTuple):
    """Where a value is drawn: its points, and the ends of its bar."""

    points: tuple[float, ...]
    low: float
    high: float


def _mark(value: Value | None) -> _Mark | None:
    """Return how a value is drawn; None of what has no place on an axis."""
    if isinstance(value, Count) and value.of:
        share = 100 * value.count / value.of
        low, high = (100 * end for end in value.interval) if value.interval else (share, share)
        found = _Mark((share,), low, high)
    elif isinstance(value, Mean):
        found = _Mark((value.mean,), value.mean - value.sd, value.mean + value.sd)
    elif isinstance(value, Range):
        found = _Mark((value.low, value.high), value.low, value.high)
    elif isinstance(value, Number):
        found = _Mark((value.value,), value.value, value.value)
    else:
        return None
    return found if math.isfinite(found.low) and math.isfinite(found.high) else None
