"""Work for the tests, and programs that run it: workers and new processes import it from here."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from exhume.jobs.run import Task, run
from exhume.jobs.store import Store


def numbers(shared: Any, spec: int) -> dict[str, Any]:
    """Linear algebra whose last bits tell how many threads computed it."""
    rng = np.random.default_rng(spec)
    rows = rng.standard_normal((150, 80))
    if shared is not None:
        rows = rows + shared["rows"]
    gram = rows.T @ rows
    return {"sum": float(gram.sum()), "solved": np.linalg.solve(gram, rows[0]).tolist(), "spec": spec}


def where(shared: Any, spec: int) -> dict[str, Any]:
    return {"pid": os.getpid(), "shared": id(shared), "kind": type(shared["rows"]).__name__}


def threads(shared: Any, spec: int) -> dict[str, Any]:
    """How many threads linear algebra would use."""
    np.linalg.solve(np.eye(3), np.ones(3))
    return {"threads": max(pool["num_threads"] for pool in threadpool_info())}


def fail(shared: Any, spec: int) -> dict[str, Any]:
    if spec == 3:
        time.sleep(1)
        raise ArithmeticError("the third task fails")
    return {"spec": spec}


def mark(shared: Any, spec: int) -> dict[str, Any]:
    """Leave a mark before it is over; the fourth then fails. Say what Ctrl-C would do here."""
    (Path(shared) / str(spec)).touch()
    if spec == 3:
        raise ArithmeticError("the third task fails")
    return {"ignores": signal.getsignal(signal.SIGINT) is signal.SIG_IGN}


def die(shared: Any, spec: int) -> dict[str, Any]:
    if spec == 3:
        time.sleep(1)
        os.kill(os.getpid(), 9)
    return {"spec": spec}


def slow(shared: Any, spec: int) -> dict[str, Any]:
    """Say who works, then take long after the first few."""
    with Path(shared).open("a") as out:
        out.write(f"{os.getpid()}\n")
    time.sleep(0.05 if spec < 4 else 60)
    return {"spec": spec}


def append(path: str, writer: str, lines: str) -> None:
    store = Store(path)
    for i in range(int(lines)):
        store.put(f"{writer} {i}", {"i": i, "text": "x" * (i * 37 % 5000)})


def work_long(path: str, pids: str, backend: str) -> None:
    print("working", flush=True)
    run([Task(str(i), i) for i in range(12)], slow, Store(path), shared=pids, workers=2, backend=backend)


def count_threads(path: str, backend: str, workers: str) -> None:
    tasks = [Task(str(i), i) for i in range(4)]
    found = run(tasks, threads, Store(path), workers=int(workers), backend=backend)
    outside = threads(None, 0)["threads"]
    print(outside, sorted({result["threads"] for result in found.values()}))


if __name__ == "__main__":
    programs: dict[str, Callable[..., None]] = {"append": append, "work": work_long, "threads": count_threads}
    programs[sys.argv[1]](*sys.argv[2:])
