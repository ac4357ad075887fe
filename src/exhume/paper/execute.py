"""The jobs of the tables, carried out: as tasks of `exhume.jobs`, so that workers rebuild as little as possible.

Workers load features themselves and keep the last cell (`exhume.paper.cells`), so jobs of one cell travel together.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from exhume.data.home import home_folder
from exhume.jobs.progress import Progress
from exhume.jobs.run import Task, run
from exhume.jobs.store import Store
from exhume.paper.work import Job, Result, SequentialDeletions

__all__ = ["default_store", "execute"]


def default_store(home: str | Path | None = None) -> Path:
    """Return where results are kept: ``paper/trials.jsonl`` in the home folder."""
    return home_folder(home) / "paper" / "trials.jsonl"


def execute(
    jobs: Iterable[Job],
    store: Store,
    *,
    workers: int = 1,
    backend: str = "joblib",
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> dict[Job, Result]:
    """Return the results of all jobs: from the store where it has them, else computed and stored; see `run`."""
    tasks = {job: Task(job.key, job, _group(job)) for job in sorted(dict.fromkeys(jobs), key=_place)}
    found = run(
        tasks.values(), _perform, store, workers=workers, backend=backend, scheduler=scheduler, progress=progress
    )
    return {job: found[task.key] for job, task in tasks.items()}


def _perform(shared: None, job: Job) -> Result:
    return job.run()


def _place(job: Job) -> tuple[str, ...]:
    """Return where a job stands: by data, split and cell, so that what was built serves the next one."""
    cell = getattr(job.spec, "cell", None)
    return (job.source.data, job.source.title, repr(getattr(cell, "split", "")), repr(cell))


def _group(job: Job) -> object:
    """Return what a worker has to build for a job; one that takes minutes travels alone."""
    cell = getattr(job.spec, "cell", None)
    return None if cell is None or isinstance(job.spec, SequentialDeletions) else (job.source, cell)
