"""The look of the figures: vector output, colours that colour-blind readers can tell apart (Okabe and Ito)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["BLUE", "COLOURS", "GREY", "NAMES", "VERMILLION", "panels", "save"]

BLUE, VERMILLION, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#666666"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE)

NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "digits": "digits", "fashion-mnist": "Fashion-MNIST"}
"""Data sets as headings name them."""

_STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "svg.hashsalt": "exhume",
    "svg.fonttype": "none",
    "figure.constrained_layout.use": True,
}


@contextmanager
def panels(count: int, width: float = 3.6, height: float = 2.9) -> Iterator[tuple[Any, list[Any]]]:
    """Give a figure with axes side by side, in the project's style, without a display."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(width * count, height))
        FigureCanvasAgg(figure)
        yield figure, list(figure.subplots(1, count, squeeze=False)[0])


def save(figure: Any, path: Path) -> None:
    """Write a figure; SVG without dates and with short coordinates, so that equal results give equal files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".svg":
        figure.savefig(path, dpi=160)
        return
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    path.write_text(_compact(path.read_text(encoding="utf-8")), encoding="utf-8")


def _compact(svg: str) -> str:
    """Shorten coordinates to hundredths of a point, and give the style of equal markers once, to their group."""
    short = re.sub(r"(?<=[\d\s\"(-])(\d+\.\d{2})\d+", r"\1", svg)

    def hoist(group: re.Match[str]) -> str:
        styles = set(re.findall(r' style="([^"]*)"/>', group[2]))
        if len(styles) != 1:
            return group[0]
        style = styles.pop()
        return f'{group[1]} style="{style}">' + group[2].replace(f' style="{style}"/>', "/>")

    return re.sub(r'(<g clip-path="[^"]*")>((?:\s*<use [^>]*/>)+)', hoist, short)
