"""The look of all figures: colours that colour-blind readers can tell apart, one style, files that repeat exactly."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exhume.files import write_files

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PALETTE",
    "PURPLE",
    "SKY",
    "STYLE",
    "VERMILION",
    "drawn",
    "panels",
    "save",
    "style",
]

# Okabe and Ito's colours. Yellow is left out: too pale on white.
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GREY = "#CC79A7", "#56B4E9", "#666666"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE)
"""Colours in the order of use; grey is for what is not data."""

STYLE: dict[str, Any] = {
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
def style(more: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Apply the project's style, with some settings of one's own on top, while a figure is made or saved."""
    from matplotlib import rc_context

    with rc_context({**STYLE, **(more or {})}):
        yield


@contextmanager
def panels(
    count: int = 1, width: float = 3.6, height: float = 2.9, more: Mapping[str, Any] | None = None
) -> Iterator[tuple[Any, list[Any]]]:
    """Give a figure with axes side by side, each of a width, in the project's style, without a display."""
    from matplotlib.figure import Figure

    with style(more):
        figure = Figure(figsize=(width * count, height))
        yield figure, list(figure.subplots(1, count, squeeze=False)[0])


def drawn(figure: Any, suffix: str, dpi: int = 160) -> bytes:
    """Return a figure as a file's bytes; SVG without dates and with short coordinates: equal results, equal files."""
    stream = io.BytesIO()
    if suffix != ".svg":
        figure.savefig(stream, format=suffix[1:], dpi=dpi)
        return stream.getvalue()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return _compact(stream.getvalue().decode()).encode()


def save(figure: Any, path: Path, dpi: int = 160) -> None:
    """Write a figure, in the format that the file's name says."""
    write_files({path: drawn(figure, path.suffix, dpi)})


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
