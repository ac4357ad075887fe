"""The command as people use it: through a pseudo-terminal, through a pipe, interrupted, in CI."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY = [
    "--dim",
    "16",
    "--clients",
    "3",
    "--trials",
    "3",
    "--probe",
    "designed",
    "--precision",
    "float64",
    "--kind",
    "class",
    "--no-remedy",
]
COMMAND = [sys.executable, "-c", "from exhume.cli.main import main; main()", "audit"]


def run(*arguments, cwd, **options):
    return subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, capture_output=True, text=True, timeout=300, check=False, **options
    )


def test_through_a_pipe_stdout_is_the_verdict_and_nothing_else(tmp_path):
    done = run(*TINY, "--fail-on", "replay", "--json", "deep/found.json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Verdict: REPLAY. ")
    assert len(lines) <= 14
    assert "\x1b" not in done.stdout + done.stderr
    assert "attacking" not in done.stderr
    assert "exhume-report/report.html" in done.stderr
    found = json.loads((tmp_path / "deep" / "found.json").read_text())
    assert done.stdout.startswith(found["verdict"]["text"])
    steps = found["verdict"]["next_steps"]
    assert [line.strip() for line in lines[lines.index("What to do now:") + 1 :]] == steps
    assert found["command"].startswith("exhume audit --dim 16")
    assert (tmp_path / "exhume-report" / "report.html").is_file()


def test_on_a_terminal_there_is_a_progress_bar_and_the_verdict_comes_last(tmp_path):
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *TINY, "--jobs", "1"],
        cwd=tmp_path,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"},
    )
    os.close(follower)
    said = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # Linux's way of saying that the other end is closed
            break
        if not piece:
            break
        said += piece
    os.close(leader)
    assert process.wait(timeout=300) == 0
    text = said.decode()
    assert "attacking" in text
    assert "/4" in text  # one cell and three deletions
    assert text.index("attacking") < text.index("Verdict: REPLAY")
    assert "What to do now:" in text


def test_interrupted_it_keeps_finished_trials_and_goes_on_to_the_same_numbers(tmp_path):
    arguments = ["--dim", "100", "--trials", "150", "--probe", "designed", "--precision", "float64", "--kind", "record"]
    arguments += ["--clients", "3", "--no-remedy", "--jobs", "2"]
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--out", "broken"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Where the tests themselves run in the background, Ctrl-C is ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    store = tmp_path / "broken" / ".trials" / "trials.jsonl"
    deadline = time.monotonic() + 200
    while not (store.is_file() and store.read_bytes().count(b"\n") >= 4):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=100)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "the same command goes on" in stderr
    kept = store.read_bytes().count(b"\n")
    assert 4 <= kept < 151
    assert not (tmp_path / "broken" / "report.html").exists()

    resumed = run(*arguments, "--out", "broken", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert f"{kept} of 151 tasks were done by an earlier run" in resumed.stderr
    whole = run(*arguments[:-1], "1", "--out", "whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    first, second = (json.loads((tmp_path / name / "report.json").read_text()) for name in ("broken", "whole"))
    assert first["findings"] == second["findings"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--probe", "designd"], "did you mean 'designed'"),
        (["--config", "audit.toml"], "did you mean 'trials'"),
        (["--target", "examples.audit_ranpac:target"], "--i-operate-this-server"),
        ([*TINY, "--precision", "float16", "--scale", "1e12"], "no trial could be carried out"),
    ],
)
def test_bad_usage_is_exit_code_2_and_one_line(tmp_path, arguments, words):
    (tmp_path / "audit.toml").write_text("trails = 3\n")
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_config_file_and_options_that_win_over_it(tmp_path):
    (tmp_path / "audit.toml").write_text('probe = "own-data"\nheads = ["float32", "bfloat16"]\nclients = 4\n')
    done = run("--config", "audit.toml", "--precision", "float16", "--explain", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "float16" in done.stdout
    assert "float32" not in done.stdout
    assert "own-data" in done.stdout
    assert "4 clients" in done.stdout
    assert not (tmp_path / "exhume-report").exists()


def test_the_live_example(tmp_path):
    arguments = ["--target", "examples.audit_ranpac:target", "--i-operate-this-server", "--fail-on", "label"]
    done = run(*arguments, "--out", str(tmp_path), cwd=ROOT)
    assert done.returncode == 0, done.stderr  # aggregate is below label
    assert done.stdout.startswith("Verdict: AGGREGATE.")
    assert "dry run" in done.stderr
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["live"]["restored"] is True
    assert found["findings"][0]["severity"] == "aggregate"
    assert (tmp_path / "report.html").is_file()


def test_own_settings_on_the_command_line(tmp_path):
    (tmp_path / "server.toml").write_text('version = 1\n\n[[admission]]\nrule = "duplicates"\n')
    (tmp_path / "audit.toml").write_text('defence = "server.toml"\n')
    plain = [word for word in TINY if word not in ("--precision", "float64")]
    done = run(*plain, "--jobs", "1", "--config", "audit.toml", "--fail-on", "aggregate", cwd=tmp_path)
    # The paper's probes are refused as repetitions of themselves; attackers that know the rule get past it.
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("Verdict: REPLAY. With these settings")
    assert "is REPLAY without settings, REPLAY with server.toml (duplicates)" in done.stdout
    assert "something came out in 1 of 1 attacks without, 0 with" in done.stdout
    both = run(*TINY, "--defence", "server.toml", cwd=tmp_path)
    assert both.returncode == 2
    assert "precision must be left out with a defence" in both.stderr


def test_a_live_target_has_its_own_settings(tmp_path):
    done = run("--target", "a:b", "--i-operate-this-server", "--defence", "hardened", cwd=tmp_path)
    assert done.returncode == 2
    assert "defence must be left out with a live target" in done.stderr
