"""Runs the cells of a matrix over processes; keeps each result at once and takes up where an earlier run stopped."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import exhume
from exhume.audit.advise.defences import DEFENCES, defence
from exhume.audit.advise.setting import Setting, make_setting
from exhume.audit.advise.work import ALL_ATTACKS, Cell, honest_cell, run_cell
from exhume.data import load_features
from exhume.errors import InputError, unknown_name

__all__ = ["QUICK_DEFENCES", "Request", "Task", "run", "setting_of", "tasks"]

HONEST = "honest traffic"
"""The row of the matrix without an attack: what a defence costs."""

QUICK_ATTACKS = ("designed", "held-out", "rank-one", "averaging", "oracle", "passive", "burn", "replay")
QUICK_DEFENCES = ("none", "float32", "slack", "detector", "clients-3", "posterior", "admission", "hardened")

Progress = Callable[[int, int], None]
"""Called with the cells done and the cells in all."""


@dataclass(frozen=True)
class Request:
    """Everything that the numbers of a matrix depend on."""

    data: str = "digits"
    encoder: str = "random-relu"
    dim: int | None = 128
    trials: int = 20
    seed: int = 0
    collusion: int = 1
    averaged: int = 100
    limit: int | None = None
    points: float = 0.2
    """Test accuracy that noise is calibrated to cost, in points."""
    attacks: tuple[str, ...] = ALL_ATTACKS
    defences: tuple[str, ...] = tuple(DEFENCES)
    busy: tuple[bool, ...] = (False, True)

    def __post_init__(self) -> None:
        for field, least in (("trials", 1), ("collusion", 1), ("averaged", 1)):
            if getattr(self, field) < least:
                raise InputError(field, f"at least {least}", getattr(self, field))
        if not self.points > 0:
            raise InputError("points", "above 0", self.points)
        for name in self.attacks:
            if name not in ALL_ATTACKS:
                raise unknown_name("attack", name, ALL_ATTACKS)
        for name in self.defences:
            defence(name)


@dataclass(frozen=True)
class Task:
    """One cell, and the hash of all that its numbers depend on."""

    cell: Cell
    key: str


@lru_cache(maxsize=1)
def setting_of(request: Request) -> Setting:
    """Load the features and deal them out."""
    found = load_features(request.data, request.encoder, dim=request.dim, seed=request.seed, limit=request.limit)
    train = (found.train_features, found.train_labels)
    test = (found.test_features, found.test_labels)
    return make_setting(train, test, found.classes, trials=request.trials, seed=request.seed, points=request.points)


def tasks(request: Request) -> list[Task]:
    """List all cells, those of one defence together."""
    setting = setting_of(request)
    data = hashlib.sha256(np.ascontiguousarray(setting.features).tobytes()).hexdigest()
    cells = []
    for name in request.defences:
        cells.append(Cell(HONEST, name, False, request.collusion, request.averaged))
        for busy in request.busy:
            # An integrity attack that sends one message does not care who else is there.
            wanted = [a for a in request.attacks if not (busy and a in ("burn", "replay"))]
            cells += [Cell(a, name, busy, request.collusion, request.averaged) for a in wanted]
    return [Task(cell, _key(request, cell, data)) for cell in cells]


def _key(request: Request, cell: Cell, data: str) -> str:
    inputs = {"code": _code(), "data": data, "seed": request.seed, "trials": request.trials, "cell": asdict(cell)}
    inputs["points"] = request.points
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:32]


@cache
def _code() -> str:
    root = Path(exhume.__file__).parent
    digest = hashlib.sha256()
    for folder in ("protocol", "attack", "defence", "audit/advise"):
        for file in sorted((root / folder).glob("**/*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def run(
    request: Request, folder: Path, *, jobs: int | None = None, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Do every cell that is not done yet; returns the records of all, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "cells.jsonl"
    wanted = tasks(request)
    done = _read(path)
    waiting = [task for task in wanted if task.key not in done]
    finished = len(wanted) - len(waiting)
    if progress is not None:
        progress(finished, len(wanted))
    with path.open("ab") as file:
        for task, record in _results(request, waiting, jobs):
            done[task.key] = record
            # The newline leads, so that a line torn by a kill spoils itself and not the next one.
            file.write(b"\n" + json.dumps({"key": task.key, **record}).encode())
            file.flush()
            finished += 1
            if progress is not None:
                progress(finished, len(wanted))
    return [done[task.key] for task in wanted]


def _read(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                entry = json.loads(line)
                key = entry.pop("key")
                if not entry.get("error"):  # a cell that failed is tried again
                    found[key] = entry
            except (ValueError, KeyError, AttributeError):
                continue
    return found


def _results(request: Request, waiting: Sequence[Task], jobs: int | None) -> Iterator[tuple[Task, dict[str, Any]]]:
    count = min(jobs or os.cpu_count() or 1, max(len(waiting), 1))
    if count <= 1:
        for task in waiting:
            yield task, _do(request, task)
        return
    parallel = Parallel(n_jobs=count, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
    yield from parallel(delayed(_work)(request, task) for task in waiting)


def _work(request: Request, task: Task) -> tuple[Task, dict[str, Any]]:
    return task, _do(request, task)


def _do(request: Request, task: Task) -> dict[str, Any]:
    """Do one cell; whatever goes wrong in it becomes its record."""
    record: dict[str, Any] = asdict(task.cell)
    try:
        with threadpool_limits(limits=1):
            setting = setting_of(request)
            if task.cell.attack == HONEST:
                return record | {"honest": asdict(honest_cell(setting, task.cell.defence))}
            return record | {"score": asdict(run_cell(setting, task.cell))}
    except Exception as error:
        # One cell is lost, the run is not: a rule of another package may raise anything.
        return record | {"error": f"{type(error).__name__}: {error}"}
