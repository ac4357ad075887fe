"""Draw matrices of `docs/results/advise-earlier-*.csv`: labels read per defence and attack, a panel a file.

`python tools/matrix_figure.py` writes docs/images/advise-earlier.svg. The columns are `defence`, `of` and the attacks.
"""

from __future__ import annotations

import csv
from pathlib import Path

from exhume.plotting import save, style

DOCS = Path(__file__).parents[1] / "docs"
PANELS = {"quiet": "quiet server", "busy": "honest updates in between"}
OTHER = ("replays", "told")
"""Columns that count blocks put back, not labels."""


def matrix(path: Path) -> tuple[list[str], list[str], list[list[float]]]:
    """Return defences, attacks and the share of labels read."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    attacks = [name for name in rows[0] if name not in ("defence", "of", *OTHER)]
    return [row["defence"] for row in rows], attacks, [[int(row[a]) / int(row["of"]) for a in attacks] for row in rows]


def main() -> None:
    from matplotlib.figure import Figure

    with style({"axes.grid": False}):
        found = {name: matrix(DOCS / "results" / f"advise-earlier-{name}.csv") for name in PANELS}
        figure = Figure(figsize=(10.5, 6.8))
        panels = figure.subplots(1, len(found), sharey=True)
        for axis, (name, (defences, attacks, shares)) in zip(panels, found.items(), strict=True):
            shown = axis.imshow(shares, vmin=0, vmax=1, cmap="cividis_r", aspect="auto")
            axis.set_xticks(range(len(attacks)), attacks, rotation=60, ha="right", rotation_mode="anchor")
            axis.set_yticks(range(len(defences)), defences)
            axis.set_title(PANELS[name])
            for y, row in enumerate(shares):
                for x, share in enumerate(row):
                    colour = "white" if share > 0.5 else "black"
                    axis.text(x, y, f"{100 * share:.0f}", ha="center", va="center", fontsize=7, color=colour)
        figure.colorbar(shown, ax=panels, label="labels read (chance 10%)", format="{x:.0%}", shrink=0.6)
        save(figure, DOCS / "images" / "advise-earlier.svg")


if __name__ == "__main__":
    main()
