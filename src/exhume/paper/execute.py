"""Running jobs: in this process, on local cores through joblib, or on a Dask cluster; always the same numbers.

Workers load features themselves and keep the last cell, so jobs of one cell travel in small chunks next to each other.
Every worker computes on one BLAS thread: results do not depend on the backend, bit for bit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from threadpoolctl import threadpool_limits

from exhume.errors import MissingExtraError, unknown_name
from exhume.paper.store import Store
from exhume.paper.work import Chain, Deletion, Job, Result

__all__ = ["BACKENDS", "Tick", "execute", "progress_bar"]

BACKENDS = ("joblib", "dask")
CHUNK = 5

Tick = Callable[[int, int, int], None]
Chunk = tuple[Job, ...]
Timed = tuple[Result, float]


def _run(chunk: Chunk) -> list[Timed]:
    """Run some jobs; each result comes with the processor time that it took."""
    timed = []
    with threadpool_limits(1):
        for job in chunk:
            began = time.process_time()
            result = job.run()
            timed.append((result, time.process_time() - began))
    return timed


def _chunks(jobs: Sequence[Job]) -> list[Chunk]:
    """Cut into short runs of deletions that share a cell; other work travels alone."""
    chunks: list[Chunk] = []
    chunk: list[Job] = []
    for job in jobs:
        if chunk and (len(chunk) == CHUNK or _home(chunk[0]) != _home(job) or not isinstance(job.spec, Deletion)):
            chunks.append(tuple(chunk))
            chunk = []
        chunk.append(job)
    return [*chunks, tuple(chunk)] if chunk else chunks


def _home(job: Job) -> object:
    """Return what a worker has to build for a job: jobs with the same should meet the same worker."""
    return job.source, getattr(job.spec, "cell", None), isinstance(job.spec, Chain)


def _ordered(jobs: Sequence[Job]) -> list[Job]:
    """Sort by data, split and cell, so that workers rebuild as little as possible."""

    def rank(job: Job) -> tuple[str, ...]:
        cell = getattr(job.spec, "cell", None)
        return (job.source.data, job.source.title, repr(getattr(cell, "split", "")), repr(cell))

    return sorted(jobs, key=rank)


def _serial(chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, list[Timed]]]:
    for chunk in chunks:
        yield chunk, _run(chunk)


def _numbered(number: int, chunk: Chunk) -> tuple[int, list[Timed]]:
    # Where psutil is installed, loky takes the features and cells that a worker keeps for a leak and restarts it.
    loky = sys.modules.get("joblib.externals.loky.process_executor")
    if loky is not None:
        vars(loky)["_MAX_MEMORY_LEAK_SIZE"] = 1 << 40
    return number, _run(chunk)


def _joblib(chunks: Sequence[Chunk], jobs: int) -> Iterator[tuple[Chunk, list[Timed]]]:
    if jobs == 1:
        yield from _serial(chunks)
        return
    pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=2 * jobs)
    for number, results in pool(delayed(_numbered)(i, chunk) for i, chunk in enumerate(chunks)):
        yield chunks[number], results


def _dask(chunks: Sequence[Chunk], jobs: int, scheduler: str | None) -> Iterator[tuple[Chunk, list[Timed]]]:
    try:
        from dask.distributed import Client, LocalCluster, as_completed
    except ImportError as error:
        raise MissingExtraError("the dask backend", "dask") from error
    if scheduler is not None:
        opened = Client(scheduler)
    else:
        cluster = LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None, memory_limit=0)
        opened = Client(cluster)
    with opened as client:
        try:
            sent = {client.submit(_run, chunk, pure=False): chunk for chunk in chunks}
            for future, results in as_completed(list(sent), with_results=True):
                yield sent[future], results
        finally:
            if scheduler is None:
                cluster.close()


def execute(
    jobs: Sequence[Job],
    store: Store,
    *,
    workers: int = 1,
    backend: str = "joblib",
    scheduler: str | None = None,
    tick: Tick | None = None,
) -> dict[Job, Result]:
    """Return the results of all jobs: from the store where it has them, else computed and stored one by one.

    Parameters
    ----------
    jobs
        What to do; the same job twice is done once.
    store
        Where finished work is kept.
    workers
        Processes.
    backend
        ``"joblib"`` or ``"dask"``.
    scheduler
        Address of a running Dask scheduler; without it the dask backend starts a local cluster.
    tick
        Called with jobs done, jobs of them that the store had, and jobs in all.
    """
    if backend not in BACKENDS:
        raise unknown_name("backend", backend, BACKENDS)
    keys = {job: job.key for job in dict.fromkeys(jobs)}
    missing = _ordered([job for job, key in keys.items() if key not in store])
    known = done = len(keys) - len(missing)
    if tick is not None:
        tick(done, known, len(keys))
    if missing:
        chunks = _chunks(missing)
        finished = _dask(chunks, workers, scheduler) if backend == "dask" else _joblib(chunks, workers)
        for chunk, results in finished:
            for job, (result, seconds) in zip(chunk, results, strict=True):
                store.put(keys[job], job.inputs, result, seconds)
            done += len(chunk)
            if tick is not None:
                tick(done, known, len(keys))
    return {job: store[key] for job, key in keys.items()}


@contextmanager
def progress_bar(console: Console) -> Iterator[Tick]:
    """Show jobs done and time left; nothing when piped."""
    columns = (
        TextColumn("trials"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}{task.fields[note]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        task = bars.add_task("trials", total=1, note="")
        began = time.monotonic()

        def tick(done: int, known: int, total: int) -> None:
            # What the store had took no time in this run.
            rate = (done - known) / max(time.monotonic() - began, 1e-9)
            left = f", {timedelta(seconds=round((total - done) / rate))} left" if rate else ""
            bars.update(task, completed=done, total=total, note=f"{left} ({known} from the store)" if known else left)

        yield tick
