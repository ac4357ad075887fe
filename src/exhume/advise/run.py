"""Runs the cells of a matrix; keeps each result at once and takes up where an earlier run stopped."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from exhume.advise.advice import aim_of, deletions_for
from exhume.advise.calibrated import Context
from exhume.advise.defences import defence, defences
from exhume.advise.records import HONEST, CellResult, HonestRecord, ScoreRecord
from exhume.capacity import require_federation
from exhume.data import FeatureSet, load_features
from exhume.errors import DataError, InputError
from exhume.jobs.key import key_of
from exhume.jobs.progress import Progress
from exhume.jobs.run import Task, run
from exhume.jobs.store import Store
from exhume.simulate import attackers
from exhume.simulate.federation import Federation
from exhume.simulate.rules import signing_key
from exhume.simulate.scenario import Scenario, deal, spread_records
from exhume.simulate.siege import besiege, honest_cost

__all__ = ["Cell", "DefenceMatrix", "Request", "matrix_of", "run_matrix"]


@dataclass(frozen=True)
class Request:
    """Everything that the numbers of a matrix depend on."""

    data: str = "digits"
    encoder: str = "random-relu"
    dim: int | None = 128
    trials: int | None = None
    """Deletions per cell; by default 20 (10 if quick), and against the hardened server as many as it takes to tell
    chance plus ten points from chance (but if quick)."""
    seed: int = 0
    colluders: int = 1
    averaged: int = 100
    limit: int | None = None
    points: float = 0.2
    """Test accuracy that noise is calibrated to cost, in points."""
    attacks: tuple[str, ...] = ()
    """All, if none is named."""
    defences: tuple[str, ...] = ()
    """All, if none is named."""
    busy: tuple[bool, ...] = (False, True)
    quick: bool = False
    """Whether "all" means those of the quick matrix."""

    def __post_init__(self) -> None:
        for field in ("trials", "colluders", "averaged"):
            if getattr(self, field) is not None and getattr(self, field) < 1:
                raise InputError(field, "at least 1", getattr(self, field))
        if self.seed < 0:
            raise InputError("seed", "at least 0", self.seed)
        if not self.points > 0:
            raise InputError("points", "above 0", self.points)
        named = tuple(attackers.REGISTRY.find(name).name for name in self.attacks)
        object.__setattr__(self, "attacks", named or self._all(attackers.REGISTRY))
        built = tuple(defence(name).name for name in self.defences)
        object.__setattr__(self, "defences", built or self._all(defences()))

    @property
    def deletions(self) -> int:
        """Deletions per cell, where there is no reason for more."""
        return self.trials if self.trials is not None else 10 if self.quick else 20

    def _all(self, known: Any) -> tuple[str, ...]:
        return tuple(name for name, entry in known.items() if entry.quick or not self.quick)


@dataclass(frozen=True)
class Cell:
    """Which attack against which defence, with or without honest updates in between."""

    attack: str
    defence: str
    busy: bool = False


@dataclass(frozen=True, eq=False)
class DefenceMatrix:
    """A request with its rows dealt out, made once for all cells."""

    request: Request
    scenario: Scenario

    def cells(self) -> list[Cell]:
        """List all cells, those of one defence together."""
        cells = []
        for name in self.request.defences:
            cells.append(Cell(HONEST, name))
            for busy in self.request.busy:
                # An integrity attack that sends one message does not care who else is there.
                wanted = [a for a in self.request.attacks if not (busy and attackers.REGISTRY[a].aim != "read")]
                cells += [Cell(attack, name, busy) for attack in wanted]
        return cells

    def trials_of(self, name: str) -> int:
        """Return how many deletions are played against a defence."""
        request = self.request
        if request.trials is not None or request.quick or not defence(name).hardened:
            return request.deletions
        readers = sum(cell.defence == name and aim_of(cell.attack) == "read" for cell in self.cells())
        return max(request.deletions, deletions_for(readers, 1.0 / self.scenario.classes))

    def context(self) -> Context:
        """Return what the operator has."""
        s = self.scenario
        keys = {name: signing_key(name, s.seed).decode() for name in (*s.names, *s.identities(self.request.colluders))}
        return Context(s, keys, self.request.colluders, self.request.points)


def matrix_of(
    request: Request, given: FeatureSet | None = None, *, path: Path | None = None, labels: Path | None = None
) -> DefenceMatrix:
    """Load the features (unless they are given) and deal them out; ``path`` and ``labels`` are files of one's own."""
    require_federation(request.dim if given is None else given.dim)
    found = given or load_features(
        request.data,
        request.encoder,
        dim=request.dim,
        seed=request.seed,
        limit=request.limit,
        path=path,
        labels=labels,
    )
    train, test = (found.train_features, found.train_labels), (found.test_features, found.test_labels)
    return DefenceMatrix(request, deal(train, test, found.classes, seed=request.seed))


def run_matrix(
    matrix: DefenceMatrix, folder: Path, *, jobs: int = 0, progress: Progress | None = None
) -> list[CellResult]:
    """Do every cell that is not done yet; returns the results of all, in order. A cell that failed is tried again."""
    request = matrix.request
    features = np.ascontiguousarray(matrix.scenario.features)
    common = {"data": hashlib.sha256(features.tobytes()).hexdigest()} | {
        name: getattr(request, name) for name in ("seed", "points", "averaged", "colluders")
    }
    trials = {name: matrix.trials_of(name) for name in request.defences}
    tasks = [
        Task(key_of(work, common | asdict(cell) | {"trials": trials[cell.defence]}), cell, cell.defence)
        for cell in matrix.cells()
    ]
    store = Store(folder / "cells.jsonl")
    found = run(tasks, work, store, shared=matrix, workers=jobs, progress=progress, again=_failed)
    try:
        return [CellResult.model_validate(found[task.key]) for task in tasks]
    except ValidationError as error:
        raise DataError(f"{store.path} holds results that this version did not write; remove it") from error


def _failed(result: dict[str, Any]) -> bool:
    return result.get("error") is not None


def work(matrix: DefenceMatrix, cell: Cell) -> dict[str, Any]:
    """Do one cell; whatever goes wrong in it becomes its record."""
    made = CellResult(attack=cell.attack, defence=cell.defence, busy=cell.busy)
    try:
        return made.model_copy(update=_played(matrix, cell)).model_dump(mode="json")
    except Exception as error:
        # One cell is lost, the run is not: a rule of another package may raise anything.
        return made.model_copy(update={"error": f"{type(error).__name__}: {error}"}).model_dump(mode="json")


def _played(matrix: DefenceMatrix, cell: Cell) -> dict[str, Any]:
    request = matrix.request
    records = spread_records(matrix.scenario, matrix.trials_of(cell.defence))
    federation = _federation(matrix, cell.defence)
    if cell.attack == HONEST:
        return {"honest": HonestRecord.model_validate(asdict(honest_cost(federation, records, request.seed)))}
    attacker = attackers.REGISTRY[cell.attack]
    score = besiege(federation, attacker, records, busy=cell.busy, averaged=request.averaged, seed=request.seed)
    return {"score": ScoreRecord.model_validate(vars(score))}


@lru_cache(maxsize=4)
def _federation(matrix: DefenceMatrix, name: str) -> Federation:
    config = defence(name).config(matrix.context())
    return Federation.behind(matrix.scenario, config, seed=matrix.scenario.seed, colluders=matrix.request.colluders)
