"""Advice from Python and for the command line: run the matrix, choose, write what an operator needs."""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from exhume.advise.advice import Advised, Needs, recommend, summarise
from exhume.advise.defences import defence
from exhume.advise.markdown import costs, table_of_cells
from exhume.advise.plot import draw, draw_cells
from exhume.advise.records import CellResult
from exhume.advise.run import DefenceMatrix, Request, matrix_of, run_matrix
from exhume.data import FeatureSet, given_features
from exhume.defence.config import dump
from exhume.files import write_files
from exhume.jobs.progress import Progress

__all__ = ["Advice", "advise", "carry_out"]


@dataclass(frozen=True)
class Advice:
    """A finished matrix, and which defence fits the needs."""

    request: Request
    needs: Needs
    chance: float
    cells: list[CellResult]
    rows: list[Advised]
    chosen: Advised | None
    files: dict[str, str]

    @property
    def failures(self) -> list[CellResult]:
        """The cells that could not be run."""
        return [cell for cell in self.cells if cell.error is not None]

    def facts(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return {
            "request": asdict(self.request),
            "needs": asdict(self.needs),
            "chance": self.chance,
            "defences": [self._plain(row) for row in self.rows],
            "recommended": None if self.chosen is None else self.chosen.defence,
            "failures": [cell.model_dump(mode="json") for cell in self.failures],
            "files": self.files,
        }

    def _plain(self, row: Advised) -> dict[str, Any]:
        facts = asdict(row) | {
            "exact": row.exact,
            "fits": row.fits(self.needs),
            "refuted": row.refutes(),
            "leaks": row.leaks(),
            "reads_labels": row.reads_labels(),
        }
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in facts.items()}

    def __str__(self) -> str:
        limits = f"at most {self.needs.max_accuracy_loss:g} points and {self.needs.max_staleness:g} changes of delay"
        best = self.chosen
        if best is None:
            return f"Verdict: no defence of the matrix serves everybody within {limits}. Allow more of one of them."
        where = f"Configuration: {self.files['configuration']}"
        if math.isnan(best.label_rate):
            return f"Verdict: within {limits}, '{best.defence}' is best; no attack that reads records was run. {where}"
        return (
            f"Verdict: within {limits}, '{best.defence}' leaks least: the best attack reads {best.label_rate:.0%} of "
            f"labels (chance {self.chance:.0%}) and puts back {best.replay_rate:.0%} of deletions. Reads labels: "
            f"{best.reads_labels()}. The goal is chance plus five points, no replay. {where}"
        )

    def __repr__(self) -> str:
        chosen = None if self.chosen is None else self.chosen.defence
        return f"Advice({chosen!r}, {len(self.rows)} defences, {len(self.cells)} cells)"

    def _repr_html_(self) -> str:
        """Return verdict and figure, for a notebook."""
        figure = Path(self.files["svg"]).read_text(encoding="utf-8")
        return f"<p>{html.escape(str(self))}</p>{figure[figure.index('<svg') :]}"


def carry_out(
    dealt: DefenceMatrix, needs: Needs, out: Path, *, jobs: int = 0, progress: Progress | None = None
) -> Advice:
    """Run a matrix, choose a defence, and write figure, tables and configuration."""
    cells = run_matrix(dealt, out, jobs=jobs, progress=progress)
    chance = 1.0 / dealt.scenario.classes
    rows = summarise(cells, chance)
    chosen = recommend(rows, needs)
    return Advice(
        dealt.request, needs, chance, cells, rows, chosen, _written(dealt, needs, chance, cells, rows, chosen, out)
    )


def _written(
    dealt: DefenceMatrix,
    needs: Needs,
    chance: float,
    cells: list[CellResult],
    rows: list[Advised],
    chosen: Advised | None,
    out: Path,
) -> dict[str, str]:
    request = dealt.request
    title = f"{request.data}, {request.encoder}: {_deletions(dealt)} deletions a cell"
    png, svg = draw(rows, chosen, needs, chance, out / "leak_against_cost", title)
    tables, counts = out / "matrix.md", out / "matrix.csv"
    write_files({tables: f"# {title}\n\n{costs(rows)}", counts: table_of_cells(cells, rows)})
    paths = {"png": str(png), "svg": str(svg), "tables": str(tables), "cells": str(out / "cells.jsonl")}
    paths |= {"csv": str(counts)}
    if drawn := draw_cells(cells, rows, out / "matrix", title):
        paths |= {"matrix_png": str(drawn[0]), "matrix_svg": str(drawn[1])}
    if chosen is not None:
        file = out / "server.toml"
        dump(defence(chosen.defence).advice(dealt.context()), file)
        paths["configuration"] = str(file)
    return paths


def _deletions(dealt: DefenceMatrix) -> str:
    found = sorted({dealt.trials_of(name) for name in dealt.request.defences})
    return " or ".join(map(str, found))


def advise(
    features: Any = None,
    labels: Any = None,
    *,
    max_accuracy_loss: float = 0.2,
    max_staleness: float = 0.0,
    out: str | Path = "advice",
    jobs: int = 0,
    **request: Any,
) -> Advice:
    """Measure every attack against every defence on your features, and recommend one.

    Parameters
    ----------
    features, labels
        Your rows and their classes; the bundled digits if left out.
    max_accuracy_loss, max_staleness
        What you can give up: points of test accuracy, accepted changes that the public head may lag behind.
    out
        Folder for results, figure and configuration.
    jobs
        Processes; 0 is one per core.
    **request
        Any field of `exhume.advise.run.Request`, such as ``trials``, ``quick``, ``attacks`` or ``defences``.

    Returns
    -------
    Advice
        Prints as its verdict; a notebook shows the figure.
    """
    given: FeatureSet | None = None if features is None else given_features(features, labels)
    if given is not None:
        request = {"data": given.data, "encoder": given.encoder, "dim": given.dim, **request}
    made = Request(points=max_accuracy_loss or 0.2, **request)
    return carry_out(matrix_of(made, given), Needs(max_accuracy_loss, max_staleness), Path(out), jobs=jobs)
