"""The picture of the frontier: labels read over a lifetime against points of accuracy, from what the frontier printed.

python benchmarks/frontier_figure.py docs/results/noise-frontier.txt docs/images/noise-frontier.svg
"""

import re
import sys
from pathlib import Path

from exhume.plotting import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, panels, save

ROW = re.compile(r"^ +(continual|mask, at once|mask, history|AdaSSP|output) +(.*?)(-?[\d.]+) \+- ([\d.]+)")
LOOKS = {
    "continual": (GREEN, "o", "continual noise (hardened)"),
    "mask, history": (BLUE, "s", "mask per deletion, whole history"),
    "AdaSSP": (ORANGE, "^", "AdaSSP, same mu"),
    "output": (PURPLE, "v", "noise on every head, same mu"),
}


def read(text):
    """Yield data set, choice, points lost, and the two rates of every row of printed tables."""
    data = None
    for line in text.splitlines():
        if found := re.match(r"^(\w+): d = ", line):
            data = found[1]
        elif data and (found := ROW.match(line)):
            numbers = [float(x) for x in found[2].split()]
            if found[1] == "continual" or found[1].startswith("mask"):
                numbers = numbers[2:]
            yield data, found[1], float(found[3]), numbers[1], numbers[2]


def main():
    source, target = map(Path, sys.argv[1:3])
    rows = list(read(source.read_text(encoding="utf-8")))
    names = [name for name in ("mnist", "cifar10") if any(row[0] == name for row in rows)]
    with panels(len(names), width=4.6, height=3.8) as (figure, axes):
        for ax, name in zip(axes, names, strict=True):
            draw(ax, [row[1:] for row in rows if row[0] == name], name)
        axes[0].set_ylabel("labels of deleted records read (%)")
        axes[0].legend(fontsize=6.5, loc="upper center")
        title = "filled: without the feature; hollow: with it; dashed: chance"
        figure.suptitle(title, fontsize=9)
        save(figure, target)


def draw(ax, rows, name):
    for choice, (colour, marker, label) in LOOKS.items():
        here = [row[1:] for row in rows if row[0] == choice]
        if here:
            lost, blind, known = zip(*here, strict=True)
            look = {"color": colour, "marker": marker, "markersize": 5, "linestyle": "none"}
            ax.plot(lost, blind, label=label, **look)
            ax.plot(lost, known, markerfacecolor="none", **look)
    ax.axhline(10, color=VERMILION, linewidth=1, linestyle="--")
    ax.axvline(0.2, color=GREY, linewidth=1, linestyle=":")
    ax.set_xscale("log")
    ax.set_ylim(0, 103)
    ax.set_title({"mnist": "MNIST", "cifar10": "CIFAR-10"}[name])
    ax.set_xlabel("test accuracy lost (points; dotted: 0.2)")


if __name__ == "__main__":
    main()
