"""The progress bar of a training: on a terminal only, so that piped output stays clean."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from exhume.decode._base import Tick, TrainingStep

__all__ = ["training_bar"]


@contextmanager
def training_bar(console: Console) -> Iterator[Tick]:
    """Show steps done, images a second, loss and time left while a decoder is trained."""
    # No label and a short bar: the note takes 70 of a terminal's 80 columns.
    columns = (BarColumn(bar_width=8), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        task = bars.add_task("training", total=None, note="training: preparing")
        began: list[float] = []

        def tick(step: TrainingStep) -> None:
            now = time.monotonic()
            began.append(now) if not began else None
            # What comes before the first step (latents, a checkpoint) is not training time.
            fresh = step.done - step.resumed - 1
            rate = fresh / (now - began[0]) if fresh > 0 else 0.0
            left = f", {timedelta(seconds=round((step.total - step.done) / rate))} left" if rate else ""
            held_out = "" if step.held_out is None else f", held out {step.held_out:.3f}"
            note = (
                f"step {step.done}/{step.total}, {rate * step.batch:.0f} images/s, loss {step.loss:.3f}{held_out}{left}"
            )
            bars.update(task, completed=step.done, total=step.total, note=note)

        yield tick
