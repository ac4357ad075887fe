"""`exhume advise` on features of one's own, through a narrow terminal's eyes."""

import json

import numpy as np
import pytest
from rich.console import Console

from exhume.cli._edge import carry_out
from exhume.cli.advise import _table
from exhume.cli.main import _note, app

WORDS = "advise --quick --trials 10 --attack passive --defence none,heads-float32 --jobs 1"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    labels = np.array(["ant", "bee", "cat"])[rng.integers(0, 3, 400)]
    rows = zip(rng.random((400, 4)), labels, strict=True)
    lines = ["a,b,c,d,kind", *(",".join([*map(str, row), label]) for row, label in rows)]
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n")
    np.savez(tmp_path / "mine.npz", features=rng.random((400, 4)), labels=rng.integers(1, 4, 400))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("file", "note"), [("mine.csv", "ant is 0"), ("mine.npz", "1 is 0")])
def test_own_features_with_labels_that_are_words_or_begin_at_1(mine, capsys, monkeypatch, file, note):
    monkeypatch.setattr("warnings.showwarning", _note)
    words = WORDS.replace("none,heads-float32", "none").split()
    assert carry_out(app, [*words, "--features", file, "--json", "found.json"]) == 0, capsys.readouterr().err
    said = capsys.readouterr()
    assert f"note: labels became classes from 0: {note}" in said.err
    found = json.loads((mine / "found.json").read_text())
    assert found["chance"] == pytest.approx(1 / 3)  # no empty class beside the three
    assert found["request"]["data"] == "features" and found["request"]["encoder"] == "none"


def test_the_table_fits_80_columns_whole(mine, capsys):
    from exhume.advise.advice import summarise
    from exhume.advise.records import CellResult

    assert carry_out(app, [*WORDS.replace("none,heads-float32", "none").split(), "--features", "mine.npz"]) == 0
    capsys.readouterr()
    records = [json.loads(line) for line in (mine / "advice" / "cells.jsonl").read_text().splitlines()]
    cells = [CellResult.model_validate(record.get("result", record)) for record in records]
    rows = summarise(cells, 1 / 3)
    for width, columns in ((80, 6), (160, 12)):
        table = _table(rows, width)
        assert len(table.columns) == columns
        console = Console(width=width, file=None, record=True, quiet=False)
        with console.capture() as seen:
            console.print(table)
        assert "\u2026" not in seen.get() and max(map(len, seen.get().splitlines())) <= width
