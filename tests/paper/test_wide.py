"""Wide tables: what is drawn, what stands on its side, and the cells as CSV."""

from __future__ import annotations

import csv
import io

import pytest

from exhume.paper.comparisons import Comparison
from exhume.paper.sheet import FIELDS, as_csv
from exhume.paper.values import Count, Mean, Most, Number, Range, Value, Words, from_plain
from exhume.paper.wide import is_wide, narrow, small_panels


def cell(row: str, column: str, measured: Value | None, published: Value | None = None) -> Comparison:
    return Comparison("rank_threshold", row, column, published, measured, 5, "mnist", "resnet18")


def test_twelve_columns_are_read_and_thirteen_are_drawn() -> None:
    assert not is_wide(["x"] * 8)  # data, row, measured or published, trials: four more
    assert is_wide(["x"] * 9)


def test_a_wide_table_stands_on_its_side() -> None:
    cells = [cell("a", "x", Number(1), Number(2)), cell("b", "x", Number(3)), cell("a", "y", None, Most())]
    assert narrow(cells, ["x", "y"]) == [
        ["", "MNIST, a", "MNIST, b"],
        ["x", "1 (2)", "3"],
        ["y", "– (most)", "–"],
        ["trials", "5", "5"],
    ]


def test_a_table_that_is_wide_either_way_is_a_figure_only() -> None:
    assert narrow([cell(str(i), "x", Number(1)) for i in range(12)], ["x"]) == []


def test_every_column_with_a_number_gets_a_panel_and_the_points_are_the_values() -> None:
    cells = [
        cell("a", "count", Count(1, 4), Count(2, 4)),
        cell("a", "range", Range(3, 9)),
        cell("a", "error", Mean(1e-9, 1e-9)),
        cell("b", "error", Mean(1e-3, 1e-4)),
        cell("a", "said", Words("fine")),
        cell("a", "endless", Number(float("inf"))),
    ]
    figure = small_panels(cells, ["count", "range", "error", "said", "endless"])
    panels = {axis.get_title(): axis for axis in figure.axes if axis.get_title()}
    assert set(panels) == {"count", "range", "error"}

    def points(name: str) -> list[list[float]]:
        return [list(line.get_xdata()) for line in panels[name].lines if line.get_marker() != "None"]

    assert points("count") == [[25.0], [50.0]]
    assert points("range") == [[3, 9], []]
    assert points("error")[0] == [1e-9, 1e-3]
    assert panels["error"].get_xscale() == "log"
    bars = [list(line.get_xdata()) for line in panels["error"].lines if line.get_marker() == "None"]
    assert bars == [[1e-9, pytest.approx(2e-9)], [1e-3, pytest.approx(1.1e-3)]]  # upwards only


def test_csv_holds_every_value_and_can_be_read_back() -> None:
    cells = [
        cell("a, b", "x", Mean(1.5, 0.1), Mean(1.6, 0.2)),
        cell("a, b", "y", Count(3, 4, (0.2, 0.99)), Most()),
        cell("a, b", "z", Range(1, 2)),
        cell("c", "x", None, Number(float("inf"))),
    ]
    lines = list(csv.DictReader(io.StringIO(as_csv(cells))))
    assert len(lines) == 6 and tuple(lines[0]) == FIELDS
    assert lines[0]["row"] == "a, b" and lines[0]["shown"] == "1.5 ± 0.1" and lines[0]["trials"] == "5"
    assert (lines[0]["mean"], lines[0]["sd"], lines[0]["value"]) == ("1.5", "0.1", "")
    assert (lines[2]["count"], lines[2]["of"], lines[2]["interval_high"]) == ("3", "4", "0.99")
    assert [line["source"] for line in lines] == ["measured", "published"] * 2 + ["measured", "published"]
    assert from_plain({"value": lines[-1]["value"]}) == Number(float("inf"))
