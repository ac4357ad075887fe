from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from exhume.cli._help import EXAMPLES, panel_of
from exhume.cli._options import Command, Jobs, JsonTo, console_for, json_text, listed, put_json, say
from exhume.cli.main import app as main_app

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


COMMANDS = {name: typer.main.get_command(main_app).commands[name] for name in ("audit", "advise")}


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_option_stands_in_a_group(name: str) -> None:
    for option in COMMANDS[name].params:
        if not getattr(option, "hidden", False):
            assert panel_of(option.opts[0].removeprefix("--")), option.opts


def test_help_has_groups_and_examples_that_are_commands() -> None:
    text = CliRunner().invoke(main_app, ["audit", "--help"], env={"COLUMNS": "80"}).output
    for words in ("Data", "Federation", "Judgement", "Examples:", "exhume audit --features mine.npz"):
        assert words in text
    assert max(map(len, text.splitlines())) <= 80
    for command, lines in EXAMPLES.items():
        for line in lines:
            assert line.startswith(command)
            found = typer.main.get_command(main_app)
            for word in command.split()[1:]:
                found = found.commands[word]
            known = {flag for option in found.params for flag in option.opts}
            assert {word for word in line.split() if word.startswith("--")} <= known, line


@pytest.mark.parametrize(
    ("option", "begun", "offered"),
    [
        ("data", "dig", "digits"),
        ("probe", "designed,own", "designed,own-data"),
        ("fail_on", "wor", "worse"),
        ("defence", "hard", "hardened"),
        ("defence", "ser", "server.toml"),
        ("engine", "fl", "flower"),
    ],
)
def test_values_are_completed(
    option: str, begun: str, offered: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.toml").touch()
    (parameter,) = [p for p in COMMANDS["audit"].params if p.name == option]
    context = typer.main.get_command(main_app).commands["audit"].make_context("audit", [], resilient_parsing=True)
    assert offered in [item.value for item in parameter.shell_complete(context, begun)]


def test_sentences_fold_at_words_on_a_terminal_only() -> None:
    import io

    from rich.console import Console

    words = "  a sentence of many words with a/very/long/path/that/stays/whole/" + "x" * 60 + " in it"
    for terminal in (True, False):
        out = io.StringIO()
        say(Console(file=out, force_terminal=terminal, width=50, color_system=None), words)
        lines = out.getvalue().splitlines()
        assert (len(lines) > 1) is terminal
        assert " ".join(out.getvalue().split()) == " ".join(words.split())
