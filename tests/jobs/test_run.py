from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from exhume.errors import InputError, MissingExtraError, WorkerDiedError
from exhume.jobs.run import CHUNK, Task, _chunks, run
from exhume.jobs.store import Store
from tests.jobs.works import die, fail, mark, numbers, slow, where

TASKS = [Task(f"key {i}", i, group=i // 3) for i in range(8)]


@pytest.fixture(scope="module")
def shared() -> dict[str, Any]:
    return {"rows": np.random.default_rng(99).standard_normal((150, 80))}


@pytest.fixture(scope="module")
def serial(shared: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(TASKS, numbers, Store(tmp_path_factory.mktemp("store") / "s"), shared=shared, workers=1)


def test_processes_give_the_same_bits(serial: dict[str, Any], shared: dict[str, Any], tmp_path: Path) -> None:
    assert run(TASKS, numbers, Store(tmp_path / "s"), shared=shared, workers=2) == serial


def pools() -> dict[str, int]:
    import scipy.linalg.blas  # noqa: F401 - loads its BLAS

    return {info["filepath"]: info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


def test_more_threads_are_those_of_one_pool_and_are_given_back(tmp_path: Path) -> None:
    before = pools()
    with threadpool_limits(1):
        inside = next(
            iter(run([Task("t", 0)], lambda *_: pools(), Store(tmp_path / "s"), threads=2, workers=1).values())
        )
    if len(before) < 2:
        pytest.skip("NumPy and SciPy share one BLAS here")
    assert {path: 1 if "numpy.libs" in path else 2 for path in before} == inside
    assert pools() == before


def test_dask_gives_the_same_bits(serial: dict[str, Any], shared: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the dask extra is not installed")
    assert run(TASKS, numbers, Store(tmp_path / "s"), shared=shared, workers=2, backend="dask") == serial


def test_dask_takes_a_running_scheduler(serial: dict[str, Any], shared: dict[str, Any], tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the dask extra is not installed")
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        found = run(TASKS, numbers, Store(tmp_path / "s"), shared=shared, backend="dask", scheduler=address)
        assert cluster.scheduler.workers, "a cluster that is not ours stays"
    assert found == serial


@pytest.mark.parametrize(("backend", "workers"), [("joblib", 1), ("joblib", 2), ("dask", 1)])
def test_every_worker_computes_on_one_thread(tmp_path: Path, backend: str, workers: int) -> None:
    if backend == "dask":
        pytest.importorskip("distributed", reason="the dask extra is not installed")
    command = [sys.executable, "-m", "tests.jobs.works", "threads", str(tmp_path / "s"), backend, str(workers)]
    many = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "4")}
    done = subprocess.run(command, env=many, capture_output=True, text=True)
    outside, _, inside = done.stdout.strip().partition(" ")
    assert inside == "[1]", done.stdout + done.stderr
    assert int(outside) > 1 or os.cpu_count() == 1


def test_results_come_in_the_order_of_the_tasks(serial: dict[str, Any]) -> None:
    assert list(serial) == [task.key for task in TASKS]
    assert [result["spec"] for result in serial.values()] == [task.spec for task in TASKS]


def test_shared_is_handed_to_each_worker_once(tmp_path: Path, shared: dict[str, Any]) -> None:
    tasks = [Task(str(i), i) for i in range(40)]
    found = run(tasks, where, Store(tmp_path / "s"), shared=shared, workers=2).values()
    by_worker = {(result["pid"], result["shared"]) for result in found}
    assert len({pid for pid, _ in by_worker}) == len(by_worker) <= 2
    assert os.getpid() not in {pid for pid, _ in by_worker}
    assert {result["kind"] for result in found} == {"memmap"}, "not copied: mapped from one file"


def test_one_worker_stays_in_this_process(tmp_path: Path, shared: dict[str, Any]) -> None:
    found = run([Task("a", 1), Task("b", 2)], where, Store(tmp_path / "s"), shared=shared, workers=1)
    assert {result["pid"] for result in found.values()} == {os.getpid()}
    assert {result["shared"] for result in found.values()} == {id(shared)}


def test_finished_work_is_not_done_again(tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    path = tmp_path / "s"
    first = run(TASKS[:2], numbers, Store(path), workers=1)
    again = run([*TASKS[:3], *TASKS[:2]], numbers, Store(path), workers=1, progress=lambda *n: seen.append(n))
    assert seen == [(2, 2, 3), (3, 2, 3)]
    assert again.items() >= first.items()
    size = path.stat().st_size
    run(TASKS[:3], fail, Store(path), workers=2)
    assert path.stat().st_size == size


def test_tasks_of_a_group_travel_together_a_few_at_a_time() -> None:
    tasks = [Task(f"{group} {i}", i, group) for i in range(CHUNK + 2) for group in ("a", None, "b")]
    chunks = _chunks(tasks)
    assert sorted(task.key for chunk in chunks for task in chunk) == sorted(task.key for task in tasks)
    shapes = [(chunk[0].group, len(chunk)) for chunk in chunks]
    assert shapes.count(("a", CHUNK)) == shapes.count(("b", CHUNK)) == shapes.count(("a", 2)) == 1
    assert shapes.count((None, 1)) == CHUNK + 2
    assert all(len({task.group for task in chunk}) == 1 for chunk in chunks)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_keeps_what_was_finished(tmp_path: Path, workers: int) -> None:
    store = Store(tmp_path / "s")
    with pytest.raises(ArithmeticError, match="the third task fails"):
        run([Task(str(i), i) for i in range(4)], fail, store, workers=workers)
    assert {"0", "1", "2"} <= {key for key in "0123" if key in store}
    assert "3" not in store


def test_what_had_arrived_when_an_error_came_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")

    def progress(done: int, reused: int, total: int) -> None:
        if done == 1:  # be slow, so that all others, the failing one too, arrive in the meantime
            while len(list(tmp_path.glob("[0-9]"))) < total:
                time.sleep(0.05)
            time.sleep(0.5)

    with pytest.raises(ArithmeticError):
        run([Task(str(i), i) for i in range(8)], mark, store, shared=str(tmp_path), workers=4, progress=progress)
    assert [key for key in "01234567" if key in store] == list("0124567")
    assert all(store[key]["ignores"] for key in "0124567"), "Ctrl-C is the parent's to answer"


def test_a_worker_that_dies_is_an_error_that_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    with pytest.raises(WorkerDiedError, match="finished work is kept"):
        run([Task(str(i), i) for i in range(4)], die, store, workers=2)
    assert {"0", "1", "2"} <= {key for key in "0123" if key in store}


def test_it_runs_in_a_thread_too(tmp_path: Path, serial: dict[str, Any], shared: dict[str, Any]) -> None:
    found: list[dict[str, Any]] = []
    made = Store(tmp_path / "s")
    thread = threading.Thread(target=lambda: found.append(run(TASKS, numbers, made, shared=shared, workers=2)))
    thread.start()
    thread.join()
    assert found == [serial]


def test_no_worker_and_no_handler_stays_after_a_run(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    run([Task(str(i), i) for i in range(4)], slow, Store(tmp_path / "s"), shared=str(pids), workers=2)
    assert gone(workers(pids), 0)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def workers(pids: Path) -> set[int]:
    return {int(line) for line in pids.read_text().split()} if pids.exists() else set()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: set[int], seconds: float) -> bool:
    """Whether all processes are gone, now or after a while."""
    end = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.1)
    return not any(map(alive, pids))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize(
    ("number", "group", "backend", "code"),
    [
        (signal.SIGINT, False, "joblib", -signal.SIGINT),
        (signal.SIGINT, True, "joblib", -signal.SIGINT),
        (signal.SIGTERM, False, "joblib", 143),
        (signal.SIGKILL, False, "joblib", -signal.SIGKILL),
        (signal.SIGINT, True, "dask", -signal.SIGINT),
        (signal.SIGTERM, False, "dask", 143),
    ],
)
def test_however_a_run_is_stopped_no_worker_stays_and_finished_work_is_kept(
    tmp_path: Path, number: signal.Signals, group: bool, backend: str, code: int
) -> None:
    if backend == "dask":
        pytest.importorskip("distributed", reason="the dask extra is not installed")
    path, pids = tmp_path / "s", tmp_path / "pids"
    command = [sys.executable, "-m", "tests.jobs.works", "work", str(path), str(pids), backend]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as parent:
        end = time.monotonic() + 60
        # Four tasks end at once; then both workers are busy with one that takes long.
        while len(pids.read_text().split() if pids.exists() else "") < 6:
            assert parent.poll() is None, parent.communicate()[1].decode()
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(0.3)
        at_work = workers(pids)
        assert len(at_work) == 2
        assert all(map(alive, at_work))
        (os.killpg if group else os.kill)(parent.pid, number)
        errors = parent.communicate(timeout=30)[1].decode()
        assert parent.returncode == code, errors
    # A parent that was killed could not end them: they look for it every second.
    assert gone(at_work, 10 if number is signal.SIGKILL else 1)
    assert sorted(key for key in map(str, range(12)) if key in Store(path)) == ["0", "1", "2", "3"]
    if backend == "joblib":
        assert errors.count("Traceback") <= 1, errors


def test_dask_missing_says_which_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with pytest.raises(MissingExtraError, match=r"exhume\[dask\]"):
        run(TASKS, numbers, Store(tmp_path / "s"), backend="dask")


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'joblib'"):
        run(TASKS, numbers, Store(tmp_path / "s"), backend="jobllib")
    with pytest.raises(InputError, match="workers must be at least 0"):
        run(TASKS, numbers, Store(tmp_path / "s"), workers=-1)
