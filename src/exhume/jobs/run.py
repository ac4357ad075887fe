"""Running tasks: in this process, on local cores through joblib, or on a Dask cluster; always the same numbers.

Every worker computes on one BLAS thread, so results do not depend on the backend, bit for bit. Each result is stored as
soon as it arrives. However a run ends, by Ctrl-C, SIGTERM, an error or a kill, no worker outlives it.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import joblib
from threadpoolctl import ThreadpoolController, threadpool_limits

from exhume.errors import InputError, MissingExtraError, WorkerDiedError, unknown_name
from exhume.jobs.progress import Progress
from exhume.jobs.store import Store

__all__ = ["BACKENDS", "Task", "run"]

BACKENDS = ("joblib", "dask")
CHUNK = 5
"""Tasks of one group that travel together: enough to use what a worker has built, few enough to lose little."""

Result = dict[str, Any]
Work = Callable[[Any, Any], Result]
"""Does one task: called with what is shared and the task's own specification."""


@dataclass(frozen=True)
class Task:
    """One piece of work.

    Attributes
    ----------
    key : str
        Names the result, as `exhume.jobs.key.key_of` makes it.
    spec : object
        What `work` is told; it travels to a worker.
    group : hashable, optional
        Tasks of one group build the same things: they go to the same worker, a few at a time. Without one a task
        travels alone.
    """

    key: str
    spec: Any
    group: Hashable = None


Chunk = tuple[Task, ...]
Timed = tuple[Result, float]
Finished = Generator[tuple[Chunk, list[Timed]], None, None]


def run(
    tasks: Iterable[Task],
    work: Work,
    store: Store,
    *,
    shared: Any = None,
    workers: int = 0,
    backend: str = "joblib",
    scheduler: str | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    again: Callable[[dict[str, Any]], bool] | None = None,
) -> dict[str, Result]:
    """Return the results of all tasks by key: from the store where it has them, else computed and stored one by one.

    Parameters
    ----------
    tasks
        What to do; the same key twice is done once.
    work
        Does one task: ``work(shared, spec)`` returns plain data for JSON.
    store
        Where finished work is kept.
    shared
        What all tasks need, such as features: handed to each worker once. Tasks must not change it.
    workers
        Processes; 0 is one per core, 1 stays in this process.
    backend
        ``"joblib"`` or ``"dask"``.
    scheduler
        Address of a running Dask scheduler; without it the dask backend starts a local cluster.
    threads
        Threads of linear algebra for work that stays in this process; worker processes have one each.
    progress
        Called with tasks done, tasks of them that the store had, and tasks in all.
    """
    if backend not in BACKENDS:
        raise unknown_name("backend", backend, BACKENDS)
    if workers < 0:
        raise InputError("workers", "at least 0 (one per core)", workers)
    wanted = list({task.key: task for task in tasks}.values())
    missing = [task for task in wanted if task.key not in store or (again is not None and again(store[task.key]))]
    done = reused = len(wanted) - len(missing)
    if progress is not None:
        progress(done, reused, len(wanted))
    if missing:
        chunks = _chunks(missing)
        with closing(_finished(chunks, work, shared, workers, backend, scheduler, threads)) as finished:
            for chunk, results in finished:
                for task, (result, seconds) in zip(chunk, results, strict=True):
                    store.put(task.key, result, inputs=task.spec, seconds=seconds)
                done += len(chunk)
                if progress is not None:
                    progress(done, reused, len(wanted))
    return {task.key: store[task.key] for task in wanted}


def _chunks(tasks: Sequence[Task]) -> list[Chunk]:
    """Cut into short runs of tasks that share a group, groups in the order of their first task."""
    groups: dict[Hashable, list[Task]] = {}
    for i, task in enumerate(tasks):
        groups.setdefault((i,) if task.group is None else (task.group, None), []).append(task)
    return [tuple(group[i : i + CHUNK]) for group in groups.values() for i in range(0, len(group), CHUNK)]


def _finished(
    chunks: list[Chunk], work: Work, shared: Any, workers: int, backend: str, scheduler: str | None, threads: int
) -> Finished:
    count = min(workers or joblib.cpu_count(), len(chunks))
    if backend == "dask":
        return _dask(chunks, work, shared, count, scheduler)
    return _serial(chunks, work, shared, threads) if count == 1 else _processes(chunks, work, shared, count)


def _do(work: Work, shared: Any, chunk: Chunk, threads: int = 1) -> list[Timed]:
    """Do some tasks; each result comes with the processor time that it took."""
    timed = []
    with threadpool_limits(threads):
        if threads > 1:
            _one_pool()
        for task in chunk:
            began = time.process_time()
            result = work(shared, task.spec)
            timed.append((result, time.process_time() - began))
    return timed


def _one_pool() -> None:
    """Leave the threads to SciPy's BLAS: where NumPy brings one of its own, each waits for the other on few cores."""
    found = [lib for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]
    for lib in found if len(found) > 1 else ():
        if "numpy" in Path(lib.filepath).parent.name:
            lib.set_num_threads(1)


def _serial(chunks: list[Chunk], work: Work, shared: Any, threads: int) -> Finished:
    for chunk in chunks:
        for task in chunk:
            yield (task,), _do(work, shared, (task,), threads)


def _processes(chunks: list[Chunk], work: Work, shared: Any, count: int) -> Finished:
    # joblib's own executor, not `Parallel`: its workers can be prepared before their first task and end with the run.
    from joblib.externals.loky import ProcessPoolExecutor

    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory(prefix="exhume-jobs-") as folder, _terminable():
        place = None if shared is None else Path(folder) / "shared"
        if place is not None:
            joblib.dump(shared, place)
        pool = ProcessPoolExecutor(count, env=threads, initializer=_prepare, initargs=(os.getpid(), place))
        sent: dict[Future[list[Timed]], Chunk] = {}
        waiting = iter(chunks)
        try:
            while True:
                # No more than a few ahead: the executor cannot be stopped cleanly with tasks in its own queue.
                for chunk in islice(waiting, 2 * count - len(sent)):
                    sent[pool.submit(_remote, work, chunk)] = chunk
                if not sent:
                    return
                for future in wait(sent, return_when=FIRST_COMPLETED).done:
                    yield sent.pop(future), future.result()
        except GeneratorExit:
            raise
        except BaseException as error:
            # Whatever went wrong, what had arrived by then is kept.
            for future in [future for future in sent if future.done() and future.exception() is None]:
                yield sent.pop(future), future.result()
            if isinstance(error, BrokenProcessPool):
                raise WorkerDiedError from error
            raise
        finally:
            # Idle workers and busy ones: nothing that they still hold is wanted.
            pool.shutdown(wait=True, kill_workers=True)


_SHARED: Any = None
"""In a worker: what all tasks of its run share."""


def _prepare(parent: int, place: Path | None) -> None:
    """Make a worker ready: it ignores Ctrl-C, goes when its parent goes, and has what is shared."""
    global _SHARED
    # Ctrl-C reaches the whole group of processes; the parent decides, and workers die without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    # Where psutil is installed, loky takes what a worker keeps for its next task for a leak, and restarts it.
    vars(sys.modules["joblib.externals.loky.process_executor"])["_MAX_MEMORY_LEAK_SIZE"] = 1 << 40
    if place is not None:
        _SHARED = joblib.load(place, mmap_mode="r")


def _follow(parent: int) -> None:
    """End this process soon after its parent has: a killed parent cannot end its workers."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _remote(work: Work, chunk: Chunk) -> list[Timed]:
    return _do(work, _SHARED, chunk)


def _dask(chunks: list[Chunk], work: Work, shared: Any, count: int, scheduler: str | None) -> Finished:
    try:
        from dask.distributed import Client, LocalCluster, as_completed
    except ImportError as error:
        raise MissingExtraError("the dask backend", "dask") from error
    with _terminable():
        cluster = None
        if scheduler is None:
            cluster = LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None, memory_limit=0)
        try:
            with Client(cluster if scheduler is None else scheduler) as client:
                common = None if shared is None else client.scatter(shared, broadcast=True)
                sent = {client.submit(_do, work, common, chunk, pure=False): chunk for chunk in chunks}
                for future, results in as_completed(list(sent), with_results=True):
                    yield sent[future], results
        finally:
            if cluster is not None:
                cluster.close()


@contextmanager
def _terminable() -> Generator[None, None, None]:
    """Let SIGTERM unwind like Ctrl-C while there are workers to end; only the main thread can ask for it."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
