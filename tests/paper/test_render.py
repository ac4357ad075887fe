from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exhume.cli.main import app
from exhume.paper.plan import FULL, QUICK, Study
from exhume.paper.published import published, reasons, source
from exhume.paper.records import Record, differences
from exhume.paper.registry import tables
from exhume.paper.render import Page, console_table, read_records, write_json
from exhume.paper.table import Results
from exhume.paper.values import Count, Mean, Number, parse
from tests.paper.conftest import TABLES


def record(table: str, column: str, theirs: object, ours: object, **more: str) -> Record:
    row = more.get("row", "sample")
    return Record(table, row, column, theirs, ours, 1, "mnist", more.get("encoder", "resnet18"))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", list(tables()))
def test_published_values_fit_their_table(name: str) -> None:
    import tomllib

    path = files("exhume.paper.published") / f"{name}.toml"
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    assert source(name) == found["source"]
    for data, rows in found["rows"].items():
        assert set(data.split("+")) <= {"mnist", "cifar10"}
        for row, cells in rows.items():
            assert set(cells) <= set(tables()[name].columns), (data, row)
            for text in cells.values():
                parse(text)


def test_published_spot_checks() -> None:
    assert published("designed_recovery", "mnist", "client", "RelErr(G)") == Mean(3.87e-10, 10.99e-10)
    assert published("attacker_data", "cifar10", "float32", "sample labels") == Count(183, 500)
    assert published("attacker_data", "cifar10", "float32", "nothing") is None


def test_reasons_name_known_tables() -> None:
    for entry in reasons():
        assert entry["table"] in tables()
        assert entry["because"]


def test_differences() -> None:
    fine = record("designed_recovery", "RelErr(G)", Mean(1e-8, 1e-8), Mean(3e-8, 1e-8))
    far = record("designed_recovery", "RelErr(S)", Mean(1e-8, 1e-8), Mean(4e-8, 1e-8))
    count = record("designed_recovery", "labels", Count(100, 100), Count(99, 100))
    part = record("designed_recovery", "success", Count(1000, 1000), Count(50, 50))
    other = record("designed_recovery", "RelErr(S)", Mean(1e-8, 0), Mean(1e-2, 0), encoder="random-relu")
    kappa = record("rank_threshold", "κ(R)", Number(1.06e6), Number(1.08e6), row="designed, m = 52")
    low = record("state_diagnostics", "λ_min(A)", Number(23.2), Number(22.9), row="designed")
    found = differences([fine, far, count, part, other, kappa, low])
    assert [gap.record for gap in found] == [far, count]
    assert found[0].what == "log10 differs by +0.60"
    assert "κ 1.08e+06 measured, 1.06e+06 published" in found[0].conditions
    assert "λ_min(A) 22.9 measured, 23.2 published" in found[0].conditions
    assert found[1].what == "99/100, published 100/100"
    rates = Count(92, 100, (0.85, 0.96)), Count(97, 100, (0.91, 0.99))
    assert differences([record("designed_precision", "labels", *rates)])[0].what.endswith("intervals overlap")


def test_page_and_json(studies: Sequence[Study], results: Results, tmp_path: Path) -> None:
    page = Page(TABLES, studies, results, "exhume paper run all", 60.0)
    page.write(tmp_path / "results.md", tmp_path / "figures")
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "| features | random, m = 2 | measured | 0/2 | 8 | ∞ | ∞ | – | 2 |" in text
    assert "(figures/class_replay.svg)" in text
    assert "18 LayerNorm features lifted from none" in text
    assert "This is a subsample" in text
    assert text.count("\n## ") == len(TABLES)
    cells = page.records()
    write_json(tmp_path / "results.json", cells)
    entries = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert set(entries[0]) == {"table", "row", "column", "published", "measured", "trials", "data", "encoder"}
    assert read_records(tmp_path / "results.json") == [r for found in cells.values() for r in found]
    assert console_table(tables()["rank_threshold"], cells["rank_threshold"]).row_count == 4


def test_command_line(features: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    assert "rank_threshold" in runner.invoke(app, ["paper", "list"]).stdout
    options = ["--features", str(features), "--quick", "--clients", "4", "--alpha", "2", "--home", str(tmp_path / "h")]
    names = ["rank_threshold", "class_replay"]
    command = ["paper", "run", *names, *options, "--size", "sequences=1", "--out", str(tmp_path), "--json"]
    done = runner.invoke(app, [*command, str(tmp_path / "cells.json")], catch_exceptions=False)
    assert done.exit_code == 0
    assert "the encoder is not the paper's" in done.stdout
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "`exhume paper run rank_threshold class_replay --quick --size sequences=1 --clients 4 --alpha 2.0`" in page
    assert str(tmp_path) not in page
    assert (tmp_path / "cells.json").read_bytes() == (tmp_path / "results.json").read_bytes()
    assert (tmp_path / "class_replay.svg").is_file()
    assert runner.invoke(app, ["paper", "compare", "--out", str(tmp_path)]).exit_code == 0
    assert json.loads(runner.invoke(app, ["paper", "compare", "--out", str(tmp_path), "--json"]).stdout) == []
    assert len(json.loads(runner.invoke(app, ["paper", "list", "--json"]).stdout)) == len(tables())
    assert runner.invoke(app, ["paper", "compare", "--out", str(tmp_path / "nowhere")]).exit_code != 0


def test_sizes() -> None:
    assert FULL.resized(["partitions=5"]).partitions == 5
    assert "the clients of 5 partitions" in FULL.resized(["partitions=5"]).sentence()
    assert QUICK.resized([]) is QUICK
    for wrong in ("partitions=0", "partitions=x", "partition=1", "name=1"):
        with pytest.raises(ValueError, match="size"):
            FULL.resized([wrong])
