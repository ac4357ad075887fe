from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from exhume.jobs.store import Store

LINES = 300


def writer(path: Path, name: str, lines: int = LINES) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.jobs.works", "append", str(path), name, str(lines)])


def test_what_comes_back_is_what_a_later_run_finds(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "results.jsonl")
    assert "a" not in store
    store.put("a", {"pair": (1, 2), "far": float("inf"), "third": 1 / 3}, seconds=1.5)
    store.put("b", {}, seconds=2.0)
    again = Store(store.path)
    assert store["a"] == again["a"] == {"pair": [1, 2], "far": float("inf"), "third": 1 / 3}
    assert again.seconds(["a", "b", "unknown"]) == store.seconds(["a", "b"]) == 3.5
    assert len(again) == 2
    with pytest.raises(KeyError):
        again["c"]


def test_the_last_result_of_a_key_counts(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    store.put("a", {"x": 1})
    store.put("a", {"x": 2})
    assert store["a"] == Store(tmp_path / "s")["a"] == {"x": 2}


def test_a_result_that_json_would_bend_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        Store(tmp_path / "s").put("a", {"x": np.arange(3)})
    assert not (tmp_path / "s").exists()


@dataclass(frozen=True)
class Inputs:
    rows: tuple[int, ...]
    where: Path


def test_inputs_are_written_for_readers(tmp_path: Path) -> None:
    Store(tmp_path / "s").put("a", {}, inputs=Inputs((1, 2), Path("x")))
    assert json.loads((tmp_path / "s").read_text())["inputs"] == {"rows": [1, 2], "where": repr(Path("x"))}


def test_fresh_forgets(tmp_path: Path) -> None:
    old = Store(tmp_path / "s")
    old.put("a", {"x": 1})
    fresh = Store(tmp_path / "s", fresh=True)
    assert "a" not in fresh
    fresh.put("b", {"x": 2})
    old.put("c", {"x": 3})
    assert old["b"] == {"x": 2}
    assert len(Store(tmp_path / "s")) == 2
    assert Store(tmp_path / "none", fresh=True).path.exists() is False


def test_what_another_process_finished_is_seen(tmp_path: Path) -> None:
    ours = Store(tmp_path / "s")
    assert writer(tmp_path / "s", "theirs", 3).wait() == 0
    assert "theirs 2" in ours
    assert ours["theirs 0"]["i"] == 0


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_line_spoils_itself_alone(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "s"
    store = Store(path)
    for key in "abc":
        store.put(key, {"key": key})
    path.write_bytes(path.read_bytes()[:-cut])
    torn = Store(path)
    assert [key in torn for key in "abc"] == [True, True, False]
    torn.put("d", {"key": "d"})
    # With only its end of line missing the third was whole, and is found again once that is written.
    assert [key in Store(path) for key in "abcd"] == [True, True, cut == 1, True]
    assert torn["d"] == {"key": "d"}


@pytest.mark.parametrize("line", [b"[1]", b"null", b'{"key": 1}', b"\xff\xfe", b'{"key":"a","result":3,"seconds":0}'])
def test_lines_that_are_not_ours_are_passed_over(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "s").write_bytes(line + b"\n")
    assert len(Store(tmp_path / "s")) == 0


def test_many_writers_lose_nothing_and_tear_no_line(tmp_path: Path) -> None:
    path = tmp_path / "s"
    writers = [writer(path, name) for name in "ab"]
    victim = writer(path, "killed", 100_000)
    while not path.exists() or path.stat().st_size < 200_000 or b'"killed 0"' not in path.read_bytes():
        time.sleep(0.01)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    late = writer(path, "late", 50)
    assert [process.wait() for process in [*writers, late]] == [0, 0, 0]
    store = Store(path)
    wanted = [f"{name} {i}" for name in "ab" for i in range(LINES)] + [f"late {i}" for i in range(50)]
    assert all(store[key]["text"] == "x" * (store[key]["i"] * 37 % 5000) for key in wanted)
    # The one that was killed has left a prefix of what it would have written.
    left = len(store) - len(wanted)
    assert left > 0
    assert all(f"killed {i}" in store for i in range(left))
    torn = [line for line in path.read_bytes().split(b"\n")[:-1] if not line.startswith(b'{"key"') or line[-1:] != b"}"]
    assert not torn, "a write of one line is whole, even when its process is killed"
