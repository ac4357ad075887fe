from __future__ import annotations

import io

import pytest
from rich.console import Console

from exhume.jobs.progress import progress_bar, time_left


@pytest.mark.parametrize(
    ("done", "reused", "total", "elapsed", "left"),
    [(0, 0, 10, 5.0, None), (4, 4, 10, 5.0, None), (6, 4, 10, 5.0, 10.0), (10, 0, 10, 5.0, 0.0)],
)
def test_time_left_counts_only_what_this_run_did(
    done: int, reused: int, total: int, elapsed: float, left: float | None
) -> None:
    assert time_left(done, reused, total, elapsed) == left


def test_while_a_long_task_is_awaited_the_time_left_does_not_shrink() -> None:
    assert time_left(99, 0, 100, 99.0, 0.0) == 1.0
    assert time_left(99, 0, 100, 127.0, 28.0) == 28.0
    assert time_left(100, 0, 100, 127.0, 28.0) == 0.0


def shown(terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120)
    with progress_bar(console, "trials") as progress:
        progress(4, 4, 10)
        progress(7, 4, 10)
    return out.getvalue()


def test_a_terminal_sees_counts_and_times() -> None:
    text = shown(True)
    assert "trials" in text
    assert "7/10 (4 done before)" in text
    assert "about 0:00:0" in text
    assert "starting" in text


def test_a_pipe_sees_nothing() -> None:
    assert shown(False) == ""
