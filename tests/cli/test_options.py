from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from exhume.cli._options import Command, Jobs, JsonTo, console_for, json_text, listed, put_json

app = typer.Typer()


@app.command("show", cls=Command)
def show(names: Annotated[list[str] | None, typer.Argument()] = None, as_json: JsonTo = None, jobs: Jobs = 0) -> None:
    console_for(as_json).print(f"{names} {as_json} {jobs}")
    put_json(json_text({"ü": 1}), as_json)


@app.callback()
def root() -> None:
    """Several commands, so that each has its name."""


JSON = '{\n  "ü": 1\n}\n'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "None None 0"),
        ("a b", "['a', 'b'] None 0"),
        ("a --json", "['a'] - 0"),
        ("a --json -", "['a'] - 0"),
        ("a --json=-", "['a'] - 0"),
        ("--json --jobs 2 a", "['a'] - 2"),
        ("--json - a", "['a'] - 0"),
        ("a -- --json", "['a', '--json'] None 0"),
    ],
)
def test_json_with_and_without_a_value(words: str, said: str) -> None:
    result = CliRunner().invoke(app, ["show", *words.split()])
    assert result.exit_code == 0, result.output
    to_stdout = " - " in said
    assert result.stdout == (JSON if to_stdout else said + "\n")
    assert result.stderr == (said + "\n" if to_stdout else "")


@pytest.mark.parametrize("form", ["--json {}", "--json={}"])
def test_json_to_a_file_leaves_standard_output_to_people(tmp_path: Path, form: str) -> None:
    path = tmp_path / "deep" / "out.json"
    result = CliRunner().invoke(app, ["show", *form.format(path).split(), "--jobs", "3"])
    assert result.stdout == f"None {path} 3\n"
    assert path.read_text(encoding="utf-8") == JSON


def test_help_says_that_the_file_may_be_left_out() -> None:
    text = CliRunner().invoke(app, ["show", "--help"]).output
    assert "--json" in text
    assert "[FILE]" in text


def test_jobs_below_zero_is_bad_usage() -> None:
    assert CliRunner().invoke(app, ["show", "--jobs", "-1"]).exit_code == 2


@pytest.mark.parametrize(
    ("given", "items"),
    [(None, []), (["a,b"], ["a", "b"]), (["a", "b, c", "a"], ["a", "b", "c"]), (["a,,"], ["a"])],
)
def test_lists_by_comma_or_repeated(given: list[str] | None, items: list[str]) -> None:
    assert listed(given) == items
