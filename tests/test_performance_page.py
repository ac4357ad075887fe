"""The page of performance: every table has its place, and is made of what the benchmarks printed."""

import copy
import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_spec = importlib.util.spec_from_file_location("performance", ROOT / "benchmarks" / "performance.py")
performance = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(performance)

RATE = {"dgemm": 1e9, "potrf": 5e8, "geqrf": 4e8}
PAGE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
FOUND = json.loads((ROOT / "docs" / "performance.json").read_text(encoding="utf-8"))


def test_the_tables_are_what_the_run_said():
    assert performance.renewed(PAGE, FOUND) == PAGE
    assert "not measured" not in PAGE.lower() and "earlier version" not in PAGE.lower()


def test_another_figure_is_another_row():
    other = copy.deepcopy(FOUND)
    other["ledger"]["update_over_potrf"]["512"] = 2.125
    other["ledger"]["low_rank_over_potrf"]["1"]["512"] = 0.5
    other["ledger"]["low_rank_amortised_over_potrf"]["1"]["512"] = 0.625
    other["ledger"]["refit_over_update"]["512"] = 130.0
    (row,) = set(performance.renewed(PAGE, other).splitlines()) - set(PAGE.splitlines())
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert (cells[0], cells[1], cells[3], cells[-1]) == ("512", "2.12", "0.500 (0.625)", "130")
    assert float(cells[5]) == pytest.approx(performance.low_rank(FOUND["rates"]["512"]["one"], 512, 1), abs=5e-4)


def test_limits_are_operations_over_rates():
    d = 512
    assert performance.limit(RATE, 1e9, 5e8) == 2.0
    assert performance.identification(RATE, d) == pytest.approx(8 * d**3 / 1e9 + 2 * d**3 / 5e8)
    assert performance.identification(RATE, d, read_off=True) == pytest.approx(2 * d**3 / 1e9 + d**3 / 5e8)
    assert performance.low_rank(RATE, d, 1) == pytest.approx((2 * d * d * 11 / 1e9) / (d**3 / 3 / 5e8))
    assert performance.release(RATE, d, 0.5) == pytest.approx((2 * d * d * 10 / 1e9) / (d**3 / 3 / 5e8))
    assert performance.scale_limit(RATE, d, 100, "hardened deletion") == pytest.approx(
        200 * d * d / 1e9 + d**3 / 3 / 5e8
    )
    assert performance.scale_limit(RATE, d, 100, "exposure") is None
    factorisations = 105 * d**3 / 3 / 5e8
    assert performance.cell_trial(RATE, "data") > factorisations


def test_a_page_without_a_place_is_refused():
    with pytest.raises(SystemExit, match="0 places for the table 'rates'"):
        performance.renewed("# Performance\n", FOUND)
