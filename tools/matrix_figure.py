"""Draw matrices of `docs/results`: labels read per defence and attack, a panel for the quiet server, one for the busy.

`python tools/matrix_figure.py` writes docs/images/advise-matrix.svg, of every cell of `exhume advise` on digits that
reads labels (`advise-digits-matrix.csv`: a line a cell), and advise-earlier.svg (`advise-earlier-*.csv`: a line a
defence, with the columns `defence`, `of` and the attacks).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from exhume.plotting import save, style

DOCS = Path(__file__).parents[1] / "docs"
PANELS = {"quiet": "quiet server", "busy": "honest updates in between"}
OTHER = ("replays", "told")
"""Columns that count blocks put back, not labels."""


@dataclass(frozen=True)
class Panel:
    """One matrix: a share of labels read for each defence and attack."""

    title: str
    defences: list[str]
    attacks: list[str]
    shares: list[list[float]]


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def earlier(name: str) -> Panel:
    rows = read(DOCS / "results" / f"advise-earlier-{name}.csv")
    attacks = [column for column in rows[0] if column not in ("defence", "of", *OTHER)]
    shares = [[int(row[a]) / int(row["of"]) for a in attacks] for row in rows]
    return Panel(PANELS[name], [row["defence"] for row in rows], attacks, shares)


def digits(name: str) -> Panel:
    """Return the cells of attacks that read labels; a cell that is missing is drawn as nothing."""
    rows = [row for row in read(DOCS / "results" / "advise-digits-matrix.csv") if not row["damage_points"]]
    defences = list(dict.fromkeys(row["defence"] for row in rows))
    rows = [row for row in rows if bool(int(row["busy"])) is (name == "busy") and row["attack"] != "replay"]
    found = {(row["defence"], row["attack"]): int(row["labels"]) / max(int(row["deleted"]), 1) for row in rows}
    attacks = sorted({attack for _, attack in found})
    return Panel(
        PANELS[name], defences, attacks, [[found.get((d, a), float("nan")) for a in attacks] for d in defences]
    )


def draw(panels: list[Panel], name: str, size: tuple[float, float]) -> None:
    from matplotlib.figure import Figure

    with style({"axes.grid": False}):
        figure = Figure(figsize=size)
        widths = [len(panel.attacks) for panel in panels]
        axes = figure.subplots(1, len(panels), sharey=True, width_ratios=widths)
        for axis, panel in zip(axes, panels, strict=True):
            shown = axis.imshow(panel.shares, vmin=0, vmax=1, cmap="cividis_r", aspect="auto")
            axis.set_xticks(range(len(panel.attacks)), panel.attacks, rotation=60, ha="right", rotation_mode="anchor")
            axis.set_yticks(range(len(panel.defences)), panel.defences)
            axis.set_title(panel.title)
            for y, row in enumerate(panel.shares):
                for x, share in enumerate(row):
                    if share == share:  # nothing where there is no such cell
                        colour = "white" if share > 0.5 else "black"
                        axis.text(x, y, f"{100 * share:.0f}", ha="center", va="center", fontsize=7, color=colour)
        figure.colorbar(shown, ax=axes, label="labels read (chance 10%)", format="{x:.0%}", shrink=0.6)
        save(figure, DOCS / "images" / f"{name}.svg")


def main() -> None:
    draw([digits(name) for name in PANELS], "advise-matrix", (14.5, 10.5))
    draw([earlier(name) for name in PANELS], "advise-earlier", (10.5, 6.8))


if __name__ == "__main__":
    main()
