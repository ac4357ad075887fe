from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from exhume.cli.main import app
from exhume.paper.registry import tables
from tests.paper.conftest import features

__all__ = ["features"]


def paper(*words: object) -> Result:
    return CliRunner().invoke(app, ["paper", *map(str, words)])


@pytest.fixture(scope="module")
def out(features: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two tables."""
    out = tmp_path_factory.mktemp("out")
    options = ["--features", features, "--quick", "--clients", 4, "--alpha", 2, "--home", out / "home", "--jobs", 1]
    sizes = ["--size", "sequences=1,own-records=2"]
    done = paper("run", "rank-threshold,class_replay", *options, *sizes, "--out", out, "--json", out / "cells.json")
    assert done.exit_code == 0, done.output
    assert "the encoder is not the paper's" in done.stdout
    return out


def test_run_writes_page_figures_and_json(out: Path) -> None:
    page = (out / "results.md").read_text(encoding="utf-8")
    command = (
        "exhume paper run rank-threshold class_replay --quick --size sequences=1,own-records=2 --clients 4 --alpha 2.0"
    )
    assert f"`{command} --jobs 1`" in page
    assert str(out) not in page
    assert (out / "class_replay.svg").is_file()
    assert (out / "cells.json").read_bytes() == (out / "results.json").read_bytes()


def test_a_second_run_takes_all_from_the_store(out: Path, features: Path) -> None:
    store = out / "home" / "paper" / "trials.jsonl"
    size = store.stat().st_size
    options = ["--features", features, "--quick", "--clients", 4, "--alpha", 2, "--home", out / "home"]
    done = paper("run", "class-replay", *options, "--out", out / "again", "--json")
    assert store.stat().st_size == size
    assert {entry["table"] for entry in json.loads(done.stdout)} == {"class_replay"}
    assert "written:" in done.stderr


def test_compare(out: Path) -> None:
    done = paper("compare", "--out", out)
    assert done.exit_code == 0
    assert "the encoder is not the paper's" in done.stdout
    assert json.loads(paper("compare", "--out", out, "--json").stdout) == []
    assert paper("compare", "--out", out / "nowhere").exit_code != 0


def test_compare_tells_by_kind_how_many_agree() -> None:
    committed = Path(__file__).parents[2] / "docs" / "results"
    cells = json.loads(paper("compare", "--out", committed, "--json").stdout)
    assert {"kind", "agrees", "gap"} <= set(cells[0])
    assert all(cell["kind"] for cell in cells)
    done = paper("compare", "--out", committed)
    agree = sum(cell["agrees"] for cell in cells)
    assert f"{agree} of {len(cells)} comparable cells agree with the paper by the rule of their kind" in done.stdout
    rows = {words[0]: words[1:] for line in done.stdout.splitlines() if (words := line.split())}
    assert rows["all"][:2] == [str(len(cells)), str(agree)]
    for kind in ("count", "whole", "percentage", "error", "property", "signed", "bound", "most"):
        mine = [cell for cell in cells if cell["kind"] == kind]
        assert mine, kind
        assert rows[kind][:2] == [str(len(mine)), str(sum(cell["agrees"] for cell in mine))]


def test_list() -> None:
    assert "rank_threshold" in paper("list").stdout
    found = json.loads(paper("list", "--json", "-").stdout)
    assert [entry["name"] for entry in found] == list(tables())


def test_names_that_are_not_known() -> None:
    done = paper("run", "rank-treshold")
    assert "did you mean 'rank_threshold'" in str(done.exception)


COMMITTED = Path(__file__).parents[2] / "docs" / "results"


def test_compare_marks_filters_and_sums_up() -> None:
    def lines(*words: str) -> list[str]:
        done = paper("compare", "--out", COMMITTED, *words)
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()

    whole, agree, differ = lines(), lines("--only", "agree"), lines("--only", "differ")
    marked = [sum(word in line.split() for line in whole) for word in ("agrees", "DIFFERS")]
    assert min(marked) > 0
    assert sum("agrees" in line.split() for line in agree) == marked[0]
    assert sum("DIFFERS" in line.split() for line in agree) == 0
    assert sum("DIFFERS" in line.split() for line in differ) == marked[1]
    assert whole[-1] == agree[-1] == differ[-1]  # the summary is of everything
    one = lines("--table", "attacker_data")
    assert {line.strip() for line in one} & set(tables()) == {"attacker_data"}
    assert {line.strip() for line in whole} & set(tables()) > {"attacker_data"}
    assert one[-1] != whole[-1]
    assert paper("compare", "--out", COMMITTED, "--only", "both").exit_code != 0
    assert paper("compare", "--out", COMMITTED, "--table", "nothing").exit_code != 0


def test_a_quick_run_does_not_look_like_a_failed_reproduction() -> None:
    from exhume.cli.paper import _quick_verdict
    from exhume.paper.render import read_comparisons

    text = _quick_verdict(read_comparisons(COMMITTED / "results.json"))
    assert "small samples" in text and "without a written reason" not in text


def test_nothing_is_cut_at_80_columns() -> None:
    """What people read on a narrow terminal has every value whole."""
    from rich.console import Console

    from exhume.cli.paper import _fits, _judged
    from exhume.paper.render import console_table, read_comparisons, tall_table

    committed = Path(__file__).parents[2] / "docs" / "results" / "results.json"
    cells = [cell for cell in read_comparisons(committed) if cell.table == "replay_psd"]
    console = Console(width=80, record=True, file=io.StringIO())
    assert not _fits(console, console_table(tables()["replay_psd"], cells))
    assert _fits(Console(width=400), console_table(tables()["replay_psd"], cells))
    console.print(tall_table(tables()["replay_psd"], cells))
    console.print(_judged("replay_psd", [cell for cell in cells if cell.comparable], roomy=False))
    shown = console.export_text()
    assert "…" not in shown and max(map(len, shown.splitlines())) <= 80
    assert all(str(cell.measured) in shown for cell in cells if cell.measured is not None)
    assert "DIFFERS" in shown
