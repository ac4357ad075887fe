"""How far a run is, for people: on a terminal only, so that piped output stays clean."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich import progress as bars
from rich.console import Console
from rich.text import Text

__all__ = ["Progress", "progress_bar", "time_left"]

Progress = Callable[[int, int, int], None]
"""Called with the tasks done, those of them that an earlier run had done, and the tasks in all."""


def time_left(done: int, reused: int, total: int, elapsed: float, waiting: float = 0.0) -> float | None:
    """Return an estimate of the seconds left from what this run did itself; None while it has done nothing.

    Tasks differ, and the long ones may come last: while one is awaited, at least as long as was waited so far is left.
    """
    fresh = done - reused
    if fresh <= 0:
        return None
    return max(elapsed / fresh * (total - done), waiting) if done < total else 0.0


class _Left(bars.ProgressColumn):
    """The time left as it is now, not as it was when the last task was done."""

    def render(self, task: bars.Task) -> Text:
        """Return the words."""
        if not task.fields["told"]:
            return Text("starting")
        done, reused, total = task.fields["told"]
        now = time.monotonic()
        left = time_left(done, reused, total, now - task.fields["began"], now - task.fields["last"])
        return Text("" if left is None else f"about {timedelta(seconds=round(left))} left")


@contextmanager
def progress_bar(console: Console, what: str) -> Iterator[Progress]:
    """Show the tasks done, the time since the start and the time left, from the start; nothing when piped.

    Parameters
    ----------
    console
        Where to show it; standard error, so that results can be piped.
    what
        What is counted, such as ``"trials"``.
    """
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(bar_width=20),
        bars.TextColumn("{task.fields[count]}"),
        bars.TimeElapsedColumn(),
        _Left(),
    )
    with bars.Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as shown:
        now = time.monotonic()
        bar = shown.add_task(what, total=None, count="", told=(), began=now, last=now)

        def progress(done: int, reused: int, total: int) -> None:
            note = f" ({reused} done before)" if reused else ""
            told, count = (done, reused, total), f"{done}/{total}{note}"
            shown.update(bar, completed=done, total=total, count=count, told=told, last=time.monotonic())

        yield progress
