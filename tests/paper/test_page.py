"""The committed page and the committed cells tell the same."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from exhume.paper.comparisons import Comparison, differences
from exhume.paper.feature_source import heading
from exhume.paper.published import published
from exhume.paper.registry import tables
from exhume.paper.render import agreement, read_comparisons

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def cells() -> list[Comparison]:
    return read_comparisons(DOCS / "results" / "results.json")


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "results.md").read_text(encoding="utf-8")


def inner(line: str) -> list[str]:
    """Return the values of a row, without data, name and kind before them and trials behind."""
    return [part.strip() for part in line.split("|")][4:-2]


def test_every_cell_is_on_the_page(cells: list[Comparison], page: str) -> None:
    for name, found in groupby(cells, key=lambda cell: cell.table):
        section = page[page.index(f"\n`{name}`. ") :]
        section = section[: section.find("\n## ")] if "\n## " in section else section
        for (data, row), group in groupby(found, key=lambda cell: (cell.data, cell.row)):
            values = {cell.column: cell for cell in group}
            lines = section.splitlines()
            titles = inner(next(line for line in lines if line.startswith("| data | row |")))
            at = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading(data)} | {row} | measured |"))
            assert set(values) <= set(titles), name
            kinds = ("measured", "published")[: 1 + any(cell.published is not None for cell in values.values())]
            for kind, line in zip(kinds, lines[at : at + len(kinds)], strict=True):
                shown = dict(zip(titles, inner(line), strict=True))
                for column, cell in values.items():
                    value = getattr(cell, kind)
                    if value is not None:
                        assert shown[column] == str(value), (name, data, row, column)


def test_the_published_values_are_those_of_the_data_files(cells: list[Comparison]) -> None:
    for cell in cells:
        assert cell.published == published(cell.table, cell.data, cell.row, cell.column)
    shown = {(cell.table, cell.data, cell.row, cell.column) for cell in cells}
    answers = [c.column for c in cells if c.table == "answers" and c.data == "mnist" and c.published is not None]
    assert len(answers) == 7
    assert ("attacker_facts", "cifar10", "m = 52", "post-states of the lowest rank") in shown


def test_agreement_and_differences_on_the_page_are_those_of_the_cells(cells: list[Comparison], page: str) -> None:
    assert agreement(cells).strip() in page
    found = differences(cells)
    assert sum(line.startswith("- ") and ", published " in line for line in page.splitlines()) == len(found)
    for gap in found:
        assert gap.reason, gap.cell
        where = f"- {heading(gap.cell.data)}, {gap.cell.row}, {gap.cell.column}: {gap.what}"
        assert f"\n{where}" in page
        assert gap.reason in page


def test_every_table_is_on_the_page(cells: list[Comparison]) -> None:
    assert {cell.table for cell in cells} == set(tables())
