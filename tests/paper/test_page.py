"""The committed page and the committed cells tell the same."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from exhume.paper.comparisons import Comparison, differences
from exhume.paper.feature_source import heading
from exhume.paper.published import published
from exhume.paper.registry import tables
from exhume.paper.render import agreement, beside, read_comparisons
from exhume.paper.renew import rendered_page, renewed_comparisons
from exhume.paper.wide import MOST_COLUMNS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def cells() -> list[Comparison]:
    return read_comparisons(DOCS / "results" / "results.json")


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "results.md").read_text(encoding="utf-8")


def parts(line: str) -> list[str]:
    """Return the cells of a line of a Markdown table."""
    return [part.strip() for part in line.split("|")][1:-1]


def shown_in(section: str, found: list[Comparison]) -> dict[tuple[str, str, str], list[str]]:
    """Return what a section shows of every cell: the measured and the published value, by place."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    titles = parts(lines[0])
    values: dict[tuple[str, str, str], list[str]] = {}
    if titles[0] == "data":
        place = ("", "")
        for line in lines[2:]:
            data, row, _, *rest = parts(line)
            place = (data, row) if data else place
            for column, value in zip(titles[3:-1], rest[:-1], strict=True):
                values.setdefault((*place, column), []).append(value)
        return values
    places = dict.fromkeys((heading(cell.data), cell.row) for cell in found)
    assert [f"{data}, {row}" for data, row in places] == titles[1:]
    for line in lines[2:]:
        column, *rest = parts(line)
        for place, value in zip(places, rest, strict=True):
            measured, _, published = value.removesuffix(")").partition(" (")
            values[(*place, column)] = [measured, published]
    return values


def test_every_cell_is_on_the_page(cells: list[Comparison], page: str) -> None:
    for name, group in groupby(cells, key=lambda cell: cell.table):
        found = list(group)
        section = page[page.index(f"\n`{name}`. ") :]
        section = section[: section.find("\n## ")] if "\n## " in section else section
        values = shown_in(section, found)
        for cell in found:
            measured, *published = values[heading(cell.data), cell.row, cell.column]
            if cell.measured is not None:
                assert measured == str(cell.measured), cell
            if cell.published is not None:
                assert published == [str(cell.published)], cell


def test_page_and_files_are_what_the_cells_say(cells: list[Comparison], page: str) -> None:
    by_table = renewed_comparisons(cells, {})
    again = "run: exhume paper page --out docs/results --page docs/results.md"
    assert rendered_page(page, list(tables().values()), by_table, "results") == page, again
    files = beside(tables().values(), by_table, DOCS / "results")
    assert len(files) > len(by_table)
    for path, content in files.items():
        if path.suffix == ".csv":  # a figure depends on the version of matplotlib
            assert path.read_text(encoding="utf-8") == content, again
        assert path.is_file(), again


def test_no_table_of_the_page_is_too_wide_to_read(page: str) -> None:
    assert max(line.count("|") - 1 for line in page.splitlines() if line.startswith("|")) <= MOST_COLUMNS


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
