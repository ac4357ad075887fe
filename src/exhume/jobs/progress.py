"""How far a run is, for people: on a terminal only, so that piped output stays clean."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich import progress as bars
from rich.console import Console

__all__ = ["Progress", "progress_bar", "time_left"]

Progress = Callable[[int, int, int], None]
"""Called with the tasks done, those of them that an earlier run had done, and the tasks in all."""


def time_left(done: int, reused: int, total: int, elapsed: float) -> float | None:
    """Return an estimate of the seconds left from what this run did itself; None while it has done nothing."""
    fresh = done - reused
    return elapsed / fresh * (total - done) if fresh > 0 else None


@contextmanager
def progress_bar(console: Console, what: str) -> Iterator[Progress]:
    """Show the tasks done, the time since the start and the time left; nothing when piped.

    Parameters
    ----------
    console
        Where to show it; standard error, so that results can be piped.
    what
        What is counted, such as ``"trials"``.
    """
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.completed:.0f}/{task.total:.0f}{task.fields[note]}"),
        bars.TimeElapsedColumn(),
        bars.TextColumn("{task.fields[left]}"),
    )
    with bars.Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as shown:
        bar = shown.add_task(what, total=None, note="", left="", visible=False)
        began = time.monotonic()

        def progress(done: int, reused: int, total: int) -> None:
            left = time_left(done, reused, total, time.monotonic() - began)
            shown.update(
                bar,
                completed=done,
                total=total,
                visible=True,
                note=f" ({reused} from an earlier run)" if reused else "",
                left="" if left is None else f"{timedelta(seconds=round(left))} left",
            )

        yield progress
