"""Results for readers: tables on the console, one Markdown page, comparisons as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from rich.table import Table as RichTable

from exhume.errors import DataError
from exhume.files import write_files
from exhume.paper.agreement import FACTORS, Tally
from exhume.paper.comparisons import Comparison, Difference, compared, differences, ratios, tallied
from exhume.paper.feature_source import heading
from exhume.paper.published import source
from exhume.paper.registry import about
from exhume.paper.sheet import as_csv
from exhume.paper.study import FULL, Study
from exhume.paper.table import Results, Table
from exhume.paper.values import from_plain
from exhume.paper.wide import BARS, is_wide, narrow, small_panels
from exhume.plotting import drawn

__all__ = [
    "AGREEMENT",
    "TALLY_COLUMNS",
    "Page",
    "agreement",
    "as_json",
    "beside",
    "console_table",
    "read_comparisons",
    "section",
    "sentence",
    "tall_table",
]

AGREEMENT = "How far they agree"
"""The heading of the section that all tables share."""

TALLY_COLUMNS = ("kind of value", "cells", "agree", *(f"within {factor:.3g} times" for factor in FACTORS))

_RATIO_COLUMNS = ("table", "heads", "errors", "above the published", "geometric mean of the ratios", "why")

_RULES = (
    "- count: the shares are equal. whole: ranks, rows and answers are equal. percentage: within one point.",
    "- error (sizes that rounding decides): within a factor of 2. signed: the same sign, and within a factor of 2.",
    "- property (what the data decide: condition numbers, ratios): within a tenth, or, of two means with spreads, "
    "within two standard errors of their difference.",
    "- bound: below the published one. most: more than half. Ranges agree if both ends do. Zero and infinity agree "
    "with themselves alone, and words are not compared.",
)

_ONE_SIDED = (
    "Where the errors of a table lie to the published ones. The cells of a table share states and draws, so that many "
    "on one side are not so many coins."
)

_SUBSAMPLE = [
    "This is a subsample of the paper's trials: cells may differ from the published ones for that reason alone.",
    "",
]


@dataclass(frozen=True)
class Page:
    """All results of one run."""

    tables: Sequence[Table]
    studies: Sequence[Study]
    results: Results
    command: str
    seconds: float
    """Processor time of all trials when they ran."""

    def comparisons(self) -> dict[str, list[Comparison]]:
        """Return the cells of every table."""
        return {table.name: compared(table, table.rows(self.studies, self.results)) for table in self.tables}

    def write(self, page: Path, folder: Path, edit: Callable[[str], str] = lambda text: text) -> None:
        """Write the page, edited if need be; the figures and the cells as CSV go into the folder."""
        for table in self.tables:
            if table.draw is not None:
                table.draw(self.studies, self.results, folder / f"{table.name}.svg")
        cells = self.comparisons()
        everything = [cell for found in cells.values() for cell in found]
        place = Path(os.path.relpath(folder, page.parent)).as_posix()
        parts = [section(table, cells[table.name], everything, place) for table in self.tables]
        text = "\n".join([*self._head(), agreement(everything), *parts])
        write_files({page: edit(text.rstrip() + "\n"), **beside(self.tables, cells, folder)})

    def _head(self) -> list[str]:
        sizes = self.studies[0].sizes
        data = ", ".join(
            f"{heading(s.data)} ({s.source.title}, d = {s.d}, features {s.source.fingerprint[:12]})"
            for s in self.studies
        )
        used = ", ".join(f"{name} {version(name)}" for name in ("exhume", "numpy", "scipy"))
        return [
            "# The paper's results, measured",
            "",
            f"Made by `{self.command}` on {data}.",
            "",
            f"Size ({sizes.name}): {sizes.sentence()}.",
            "",
            *_SUBSAMPLE[: 2 * (sizes != FULL)],
            f"{len(self.results):,} units of work took {self.seconds / 60:.0f} minutes of processor time, one BLAS "
            f"thread each, when they ran ({used}).",
            "",
            "*measured* rows come from this run, *published* ones from the paper's text. Errors are mean ± standard "
            "deviation over successful attacks; failures stay in every count. Columns named rank-one have no published "
            "counterpart: the recovery from one head after the deletion, at the same responses.",
            "",
        ]


def section(table: Table, cells: list[Comparison], everything: Sequence[Comparison], place: str) -> str:
    """Return the section of a table, from its cells and those of the whole page.

    Figures and CSV are in the folder ``place``, as seen from the page. A table that is too wide to be followed is
    drawn, and stands on its side.
    """
    where = source(table.name)
    encoders = ", ".join(dict.fromkeys(cell.encoder for cell in cells))
    lines = [f"## {table.title} ({encoders})", "", f"`{table.name}`. {about(table)}", ""]
    if where is not None:
        lines += [f"Published: {where}.", ""]
    columns = _columns(table, cells)
    if table.draw is not None or is_wide(columns):
        lines += [f"![{table.title}]({place}/{table.name}.svg)", ""]
    if is_wide(columns):
        lines += [BARS, ""] if table.draw is None else []
        titles, *body = narrow(cells, columns) or [[]]
        if titles:
            lines += ["Measured, and in brackets the published value.", "", *_markdown(titles, body), ""]
    else:
        lines += [*_markdown(["data", "row", "", *columns, "trials"], _lines(cells, columns)), ""]
    lines += [f"The cells as CSV: [{table.name}.csv]({place}/{table.name}.csv).", ""]
    mine = [gap for gap in differences(everything) if gap.cell.table == table.name]
    if mine:
        lines += ["Differences:", "", *(_bullet(gap) for gap in mine), ""]
    return "\n".join(lines)


def beside(tables: Iterable[Table], cells: Mapping[str, list[Comparison]], folder: Path) -> dict[Path, str | bytes]:
    """Return the files that belong to the sections: the cells of every table as CSV, the figures of wide ones."""
    files: dict[Path, str | bytes] = {}
    for table in tables:
        found = cells[table.name]
        files[folder / f"{table.name}.csv"] = as_csv(found)
        if table.draw is None and is_wide(columns := _columns(table, found)):
            files[folder / f"{table.name}.svg"] = drawn(small_panels(found, columns), ".svg")
    return files


def _columns(table: Table, cells: Sequence[Comparison]) -> list[str]:
    """Return the columns that some cell is in, in the order of the page."""
    return [column for column in table.columns if any(cell.column == column for cell in cells)]


def _lines(cells: Sequence[Comparison], columns: Sequence[str]) -> list[list[str]]:
    """Return the body: a measured and, if there is one, a published line per row."""
    lines = []
    for (data, row), group in groupby(cells, key=lambda cell: (cell.data, cell.row)):
        found = {cell.column: cell for cell in group}
        trials = str(next(iter(found.values())).trials)
        for kind in ("measured", "published"):
            values = [getattr(found[c], kind) if c in found else None for c in columns]
            if kind == "measured" or any(value is not None for value in values):
                name = [heading(data), row] if kind == "measured" else ["", ""]
                shown = ["–" if value is None else str(value) for value in values]
                lines.append([*name, kind, *shown, trials if kind == "measured" else ""])
    return lines


def _bullet(gap: Difference) -> str:
    cell = gap.cell
    where = f"{heading(cell.data)}, {cell.row}, {cell.column}"
    return (
        f"- {where}: {gap.what}"
        + (f" ({gap.conditions})" if gap.conditions else "")
        + (f". {gap.reason}" if gap.reason else "")
    )


def agreement(everything: Sequence[Comparison]) -> str:
    """Return the section on how far all cells of a page agree with the published ones."""
    found = tallied(everything)
    lines = [f"## {AGREEMENT}", ""]
    if not found:
        return "\n".join([*lines, "No cell is compared number by number: the encoder is not the paper's.", ""])
    sides = [
        [r.table, r.heads, str(r.cells), str(r.above), f"{r.mean:.2f}", r.reason or "–"] for r in ratios(everything)
    ]
    lines += [f"{sentence(found)} They are listed below their tables with the conditioning of both and a reason.", ""]
    lines += [*_markdown(TALLY_COLUMNS, [tally.line() for tally in found]), "", *_RULES, ""]
    if sides:
        lines += [_ONE_SIDED, "", *_markdown(_RATIO_COLUMNS, sides), ""]
    return "\n".join(lines)


def sentence(found: Sequence[Tally]) -> str:
    """Say in one sentence how many cells agree."""
    whole = found[-1]
    return (
        f"{whole.agree} of {whole.cells} comparable cells agree with the paper by the rule of their kind; "
        f"{whole.cells - whole.agree} differ."
    )


def _markdown(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table."""
    return ["| " + " | ".join(line) + " |" for line in (columns, ["---"] * len(columns), *lines)]


def console_table(table: Table, cells: Sequence[Comparison]) -> RichTable:
    """Return one table for the console."""
    encoders = ", ".join(dict.fromkeys(cell.encoder for cell in cells))
    columns = _columns(table, cells)
    made = RichTable("data", "row", "", *columns, "trials", title=f"{table.title} ({encoders})", title_justify="left")
    for line in _lines(cells, columns):
        made.add_row(*line, style="dim" if line[2] == "published" else None)
    return made


def tall_table(table: Table, cells: Sequence[Comparison]) -> RichTable:
    """Return one table for a narrow console: a line a value, the rows one below the other."""
    encoders = ", ".join(dict.fromkeys(cell.encoder for cell in cells))
    made = RichTable(title=f"{table.title} ({encoders})", title_justify="left", box=None, header_style="bold")
    for column in ("", "measured", "published"):
        made.add_column(column, overflow="fold")
    for (data, row), group in groupby(cells, key=lambda cell: (cell.data, cell.row)):
        found = list(group)
        made.add_row(f"{heading(data)}, {row}", f"{found[0].trials} trials", "", style="bold")
        for cell in found:
            made.add_row(f"  {cell.column}", *("–" if v is None else str(v) for v in (cell.measured, cell.published)))
    return made


def as_json(cells: Mapping[str, list[Comparison]]) -> str:
    """Return strict JSON, one comparison a line."""
    plain = [cell.plain() for found in cells.values() for cell in found]
    return "[\n" + ",\n".join(json.dumps(p, allow_nan=False, ensure_ascii=False) for p in plain) + "\n]\n"


def read_comparisons(path: Path) -> list[Comparison]:
    """Read what `as_json` gave."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return [
            Comparison(
                **{**entry, "published": from_plain(entry["published"]), "measured": from_plain(entry["measured"])}
            )
            for entry in entries
        ]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{path} does not hold results of `exhume paper run` ({type(error).__name__})") from error
