"""The page of performance: every table has its place, and is made of what the benchmarks print."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_spec = importlib.util.spec_from_file_location("performance", ROOT / "benchmarks" / "performance.py")
performance = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(performance)

RATE = {"dgemm": 1e9, "potrf": 5e8, "geqrf": 4e8}
STEPS = ("identify float64", "delete float64", "recover float64", "own data", "exposure", "attack")
FOUND = {
    "cores": 2,
    "rates": {"512": {"one": RATE, "all": {name: 2 * value for name, value in RATE.items()}}},
    "ledger": {
        "update_over_potrf": {"512": 2.125},
        "refit_over_update": {"512": 130.0},
        "low_rank_over_potrf": {"512": {"1": 0.5, "16": 0.75}},
    },
    "identify": {
        "jobs": 2,
        "identify_speedup": {"512": 5.5},
        "seconds": {"512": 4.0},
        "read_off_speedup": {"512": 9.5},
        "error": {"512": 3e-14},
        "read_off_error": {"512": 5e-15},
        "designed_cell_speedup": 16.0,
        "designed_cell_seconds": 400.0,
        "data_cell_speedup": 11.0,
        "data_cell_seconds": 4000.0,
        "exponent": 2.5,
    },
    "accountant": {
        "rows": [{"d": 512} | {f"{k}_over_potrf": 0.25 for k in ("typical", "worst", "exposure", "noise")}],
    },
    "message_size": {"one_record": [{"d": 10_000, "bytes": 1_700_000, "dense_bytes": 1.6e9, "peak_bytes": 5e6}]},
    "scale": {
        "sizes": [
            {
                "d": 512,
                "classes": 100,
                "float64": {"labels": "20 of 20"},
                "float32": {"labels": "19 of 20"},
                "time_s": dict.fromkeys(STEPS, 100.0),
                "peak_gb": dict.fromkeys(STEPS, 1.5),
            }
        ],
        "exponent": None,
    },
}


def test_every_table_has_its_place_and_the_words_stay():
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    made = performance.renewed(page, FOUND)
    assert performance.renewed(made, FOUND) == made
    for line in (
        "| 512 | 1 | 0 | 0 | 2 | 1 | 1 |",
        "| 512 | 2.12 | 1.12 | b = 1: 0.50, b = 16: 0.75 | 130 |",
        "| 10,000 | 1.70 MB | 1,600 MB | 5.0 MB |",
        "| 512 | 0.25 | 0.25 | 0.25 | 0.25 |",
        "Growth exponents: identification: 2.50.",
    ):
        assert line in made, line
    assert "20 of 20, 19 of 20 |" in made and "not measured" not in made.lower()
    assert made.split("\n")[0] == page.split("\n")[0]


def test_limits_are_operations_over_rates():
    d = 512
    assert performance.limit(RATE, 1e9, 5e8) == 2.0
    assert performance.identification(RATE, d) == pytest.approx(8 * d**3 / 1e9 + 2 * d**3 / 5e8)
    assert performance.identification(RATE, d, read_off=True) == pytest.approx(2 * d**3 / 1e9 + d**3 / 5e8)
    factorisations = 105 * d**3 / 3 / 5e8
    assert performance.cell_trial(RATE, "data") > factorisations


def test_a_page_without_a_place_is_refused():
    with pytest.raises(SystemExit, match="0 places for the table 'rates'"):
        performance.renewed("# Performance\n", FOUND)
