"""Benchmarks and examples: each still fits the library that it measures or shows."""

import importlib.util
import json
import math
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from exhume.errors import MissingExtraError

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path for folder in ("benchmarks", "examples") for path in (ROOT / folder).glob("*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_script_finds_what_it_imports(path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.syspath_prepend(str(path.parent))  # as Python does for a script
    try:
        runpy.run_path(str(path), run_name="imported")
    except MissingExtraError as error:
        pytest.skip(str(error))


def test_the_recovery_benchmark_knows_probes_and_recoveries_by_their_names():
    words = "--dim 128 --deletions 1 --jobs 1 --precision float32 --probes own-data --methods rank-one"
    command = [sys.executable, str(ROOT / "benchmarks" / "recovery.py"), *words.split()]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "own-data  float32   split 0 | rank-one    1/1 labels" in out


def test_the_comparison_of_engines_sees_a_single_bit(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    made = runpy.run_path(str(ROOT / "benchmarks" / "engines.py"), run_name="imported")
    same = {"trials": [{"label": 3, "error": 0.1, "none": None}], "cells": ()}
    found = dict(made["values"](same))
    assert made["compared"](found, dict(made["values"](same))) == {"values": 5, "numbers": 1, "differ": []}
    for change in ({"error": math.nextafter(0.1, 1.0)}, {"label": 4}, {"none": 0.0}, {"more": 1}):
        other = dict(made["values"]({**same, "trials": [same["trials"][0] | change]}))
        assert made["compared"](found, other)["differ"] == [f".trials[0].{next(iter(change))}"]
    zeros = [dict(made["values"]({"error": zero})) for zero in (0.0, -0.0)]
    assert made["compared"](*zeros)["differ"] == [".error"]


def test_the_example_of_a_live_audit_runs_from_any_folder(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "audit_ranpac.py"), "--out", "report"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Verdict: AGGREGATE.") and "What to do now:" in done.stdout
    assert (tmp_path / "report" / "report.html").is_file()


@pytest.fixture
def mutants(monkeypatch):
    """The tool, as a module."""
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mutants", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", ["mutants.py"])
    return module


def test_every_mutant_can_still_be_made(mutants):
    found = mutants.read([])
    assert len(found) > 80
    assert {str(mutant): why for mutant in found if (why := mutant.wrong())} == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"old": "no such text"}, "the text is there 0 times"),
        ({"file": "protocol/nowhere.py"}, "the text is there 0 times"),
        ({"old": "self"}, "the text is there "),
        ({"new": "def __sub__"}, "it changes nothing"),
        ({"tests": ["tests/test_nowhere.py"]}, "tests are not there: tests/test_nowhere.py"),
        ({"tests": []}, "tests are not there: none named"),
    ],
)
def test_a_mutant_that_cannot_be_made_stops_the_tool_before_anything_runs(
    mutants, monkeypatch, tmp_path, capsys, change, said
):
    entry = {"file": "protocol/summary.py", "old": "def __sub__", "new": "def sub", "tests": ["tests/test_scripts.py"]}
    lines = [f"{key} = {json.dumps(value)}" for key, value in (entry | change).items()]
    monkeypatch.setattr(mutants, "LIST", tmp_path / "mutants.toml")
    mutants.LIST.write_text("[[mutant]]\n" + "\n".join(lines))
    monkeypatch.setattr(mutants, "passes", lambda *_: pytest.fail("a test was run"))
    assert mutants.main() == 2
    assert f"broken, {said}" in capsys.readouterr().out


def test_a_part_of_a_name_that_no_mutant_has_is_said(mutants, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["mutants.py", "nowhere"])
    assert mutants.main() == 2
    assert "no mutant of mutants.toml is in nowhere" in capsys.readouterr().out
