"""Work for the tests, and programs that run it: workers and new processes import it from here."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

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


def fail(shared: Any, spec: int) -> dict[str, Any]:
    if spec == 3:
        time.sleep(1)
        raise ArithmeticError("the third task fails")
    return {"spec": spec}


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


def append(path: str, writer: str, lines: int) -> None:
    store = Store(path)
    for i in range(lines):
        store.put(f"{writer} {i}", {"i": i, "text": "x" * (i * 37 % 5000)})


def work_long(path: str, pids: str, backend: str) -> None:
    print("working", flush=True)
    run([Task(str(i), i) for i in range(12)], slow, Store(path), shared=pids, workers=2, backend=backend)


if __name__ == "__main__":
    {"append": lambda p, w, n: append(p, w, int(n)), "work": work_long}[sys.argv[1]](*sys.argv[2:])
