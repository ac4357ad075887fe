"""Notebooks of the documentation: every one runs from its first cell to its last."""

import json
from pathlib import Path

import matplotlib
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def cells(path):
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, monkeypatch, capsys):
    matplotlib.use("Agg", force=True)
    names = {"__name__": "notebook"}
    for number, cell in enumerate(cells(path)):
        exec(compile("".join(cell["source"]), f"{path.name}[{number}]", "exec"), names)
    assert capsys.readouterr().out


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_saved_with_what_it_prints(path):
    assert any(cell["outputs"] for cell in cells(path))


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 2
