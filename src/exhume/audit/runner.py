"""Runs the tasks of a plan over processes, keeps each result at once, and reuses what an earlier run finished."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from exhume.audit.config import Settings
from exhume.audit.plan import Plan, Task
from exhume.audit.records import CellRecord, TrialRecord
from exhume.audit.store import Store
from exhume.audit.work import do

__all__ = ["Outcome", "run"]

BATCH = 4
"""Trials handed to a worker at a time: enough to hide the hand-over, few enough to lose little to a Ctrl-C."""

Progress = Callable[[int, int], None]
"""Called with the tasks done and the tasks in all."""


@dataclass(frozen=True)
class Outcome:
    """All records of an audit, in the order of its plan."""

    cells: tuple[CellRecord, ...]
    trials: tuple[TrialRecord, ...]
    reused: int
    """How many of them an earlier run had finished."""


def run(plan: Plan, folder: Path, *, fresh: bool = False, progress: Progress | None = None) -> Outcome:
    """Do every task that is not yet done. Interrupted, it leaves what is finished on disk and raises on."""
    tasks = plan.tasks()
    with Store(folder, fresh=fresh) as store:
        waiting = [task for task in tasks if store.get(task.key) is None]
        reused = done = len(tasks) - len(waiting)
        if progress is not None:
            progress(done, len(tasks))
        for task, record in _results(plan.settings, waiting):
            store.add(task.key, record)
            done += 1
            if progress is not None:
                progress(done, len(tasks))
        records = [store.get(task.key) for task in tasks]
    cells = tuple(r for r in records if isinstance(r, CellRecord))
    trials = tuple(r for r in records if isinstance(r, TrialRecord))
    return Outcome(cells, trials, reused)


def _results(settings: Settings, tasks: list[Task]) -> Iterator[tuple[Task, CellRecord | TrialRecord]]:
    # One BLAS thread everywhere: the same sums in the same order, whatever the number of jobs.
    shared = settings.model_dump_json()
    jobs = min(settings.jobs or _cores(), len(tasks))
    if jobs <= 1:
        for task in tasks:
            yield task, _limited(shared, task)
        return
    batches = _batches(tasks)
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
    finished = False
    try:
        for batch in parallel(delayed(_work)(shared, batch) for batch in batches):
            yield from batch
        finished = True
    finally:
        if not finished:
            _stop_workers()


def _batches(tasks: list[Task]) -> list[list[Task]]:
    """Group tasks of the same cell, so that a worker keeps what it has identified."""
    by_cell: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        by_cell.setdefault((task.probe, task.heads), []).append(task)
    return [own[i : i + BATCH] for own in by_cell.values() for i in range(0, len(own), BATCH)]


def _work(settings: str, tasks: list[Task]) -> list[tuple[Task, CellRecord | TrialRecord]]:
    if threading.current_thread() is threading.main_thread():
        # Ctrl-C reaches the whole process group: the parent decides, workers die without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return [(task, _limited(settings, task)) for task in tasks]


def _limited(settings: str, task: Task) -> CellRecord | TrialRecord:
    with threadpool_limits(limits=1):
        return do(settings, task)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _stop_workers() -> None:
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=False, kill_workers=True)
