"""What ends a command, whatever it is, becomes an exit code that cannot be mistaken for a finding."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from exhume.cli._edge import LONGEST, TRACEBACK_VARIABLE, carry_out
from exhume.cli._options import check_file, check_folder
from exhume.errors import ExhumeError, InputError

PROGRAM = [sys.executable, "-c", "from exhume.cli.main import main; main()"]


def ending(how: Callable[[], object]) -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("end")(lambda: how())
    app.command("other")(lambda: None)
    return app


def raising(error: BaseException) -> Callable[[], object]:
    def how() -> object:
        raise error

    return how


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ExhumeError("all is lost"), 2, "all is lost"),
        (ExhumeError("line\n  - one\n  - two"), 2, "line - one - two"),
        (ExhumeError("\x1b[31mred\x07 \u202eback"), 2, r"\x1b[31mred\x07 \u202eback"),
        (OSError(28, "No space left on device", "there"), 2, "'there': No space left on device"),
        (OSError("odd"), 2, "unexpected OSError: odd (EXHUME_TRACEBACK=1 shows where)"),
        (MemoryError(), 2, "not enough memory; try a smaller --dim or fewer --jobs"),
        (RecursionError("deep"), 2, "unexpected RecursionError: deep (EXHUME_TRACEBACK=1 shows where)"),
        (KeyError("x"), 2, "unexpected KeyError: 'x' (EXHUME_TRACEBACK=1 shows where)"),
        (EOFError(), 2, "the input ended early"),
        (typer.Abort(), 2, "the input ended early"),
        (SystemExit(0), 2, "code outside Exhume ended the program (exit code 0), so there is no result"),
        (SystemExit(None), 2, "code outside Exhume ended the program (exit code None), so there is no result"),
        (SystemExit(1), 2, "code outside Exhume ended the program (exit code 1), so there is no result"),
        (SystemExit("bye"), 2, "code outside Exhume ended the program (exit code bye), so there is no result"),
    ],
)
def test_errors(error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert carry_out(ending(raising(error)), ["end"]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1] == f"exhume: {words}"


@pytest.mark.parametrize(
    ("error", "code"), [(SystemExit(143), 143), (typer.Exit(1), 1), (typer.Exit(0), 0), (BrokenPipeError(32, "x"), 141)]
)
def test_exits_that_mean_something(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert carry_out(ending(raising(error)), ["end"]) == code
    assert capsys.readouterr().err == ""


def test_a_command_that_ends_well() -> None:
    assert carry_out(ending(lambda: None), ["end"]) == 0
    assert carry_out(ending(lambda: 7), ["other"]) == 0


def test_a_message_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert carry_out(ending(raising(ExhumeError("x" * 10_000))), ["end"]) == 2
    assert len(capsys.readouterr().err) < LONGEST + 20


def test_a_traceback_can_be_had_of_what_nobody_foresaw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACEBACK_VARIABLE, "1")
    with pytest.raises(KeyError):
        carry_out(ending(raising(KeyError("x"))), ["end"])
    assert carry_out(ending(raising(ExhumeError("foreseen"))), ["end"]) == 2


def run(*words: str, cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *words], cwd=cwd, text=True, stderr=subprocess.PIPE, timeout=200, check=False, **options  # type: ignore[call-overload, no-any-return]
    )  # fmt: skip


def test_nobody_reads_the_output(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run("paper", "list", cwd=tmp_path, stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_the_output_goes_to_a_full_disk(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = run("data", "list", cwd=tmp_path, stdout=full)
    assert (done.returncode, done.stderr) == (2, "exhume: No space left on device\n")


def test_a_target_that_exits_passes_no_guard(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os, sys\ndef target(): sys.exit(0)\n")
    words = ["audit", "--target", "mine:target", "--i-operate-this-server", "--fail-on", "label"]
    done = run(*words, cwd=tmp_path, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "SystemExit: 0" in done.stderr
    assert not (tmp_path / "exhume-report").exists()


def test_a_folder_that_takes_no_report_is_refused_before_any_work(tmp_path: Path) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = run("audit", "--out", "report", cwd=tmp_path, stdout=subprocess.PIPE, preexec_fn=small)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "exhume: out must be a folder that can be written; got 'report' (File too large)\n"
    assert list(tmp_path.iterdir()) == []


def test_help_and_completion_still_answer(tmp_path: Path) -> None:
    bare = run(cwd=tmp_path, stdout=subprocess.PIPE)
    assert bare.returncode == 2
    assert "Usage" in bare.stdout + bare.stderr
    assert "Traceback" not in bare.stderr
    # The shell is named, not found out: whoever runs the tests may sit in one that cannot complete.
    named = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = run("--show-completion", "bash", cwd=tmp_path, stdout=subprocess.PIPE, env=named)
    assert shown.returncode == 0, shown.stderr
    assert "complete" in shown.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    for place in ("closed", "closed/deeper"):
        with pytest.raises(InputError, match="Permission denied"):
            check_folder("out", tmp_path / place)


def test_places_that_will_do_are_left_as_they_were(tmp_path: Path) -> None:
    check_folder("out", tmp_path / "new" / "deeper")
    check_file("json", tmp_path / "new" / "file.json")
    check_file("json", "-")
    check_file("json", None)
    check_file("json", os.devnull)
    assert list(tmp_path.iterdir()) == []
