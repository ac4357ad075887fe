"""Progress bars for fetching and extraction: on a terminal only, so that piped output stays clean."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from exhume.data.catalogue import Progress as Report
from exhume.data.extract import Tick

__all__ = ["extraction_bar", "fetch_bar"]


@contextmanager
def extraction_bar(console: Console) -> Iterator[Tick]:
    """Show that data is prepared and, while features are extracted, rows done, images per second and time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        task = bars.add_task("preparing data", total=None, note="")
        began = time.monotonic()

        def tick(done: int, resumed: int, total: int) -> None:
            # Rows of an earlier run took no time in this one.
            rate = (done - resumed) / max(time.monotonic() - began, 1e-9)
            left = f", {timedelta(seconds=round((total - done) / rate))} left" if rate else ""
            before = f" ({resumed} from an earlier run)" if resumed else ""
            note = f"{done}/{total} images, {rate:.1f}/s{left}{before}"
            bars.update(task, description="extracting", completed=done, total=total, note=note)

        yield tick


@contextmanager
def fetch_bar(console: Console) -> Iterator[Report]:
    """Show bytes and speed of the download under way."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                for finished in tasks.values():
                    bars.remove_task(finished)
                tasks.clear()
                tasks[what] = bars.add_task(what.rsplit("/", 1)[-1], total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield report
