"""The units of work that tables ask for: each is plain data, runs anywhere, and returns plain numbers.

The attacker's part sees only heads and its own messages (`exhume.simulate.trial`); the hidden ledger is read here for
scoring alone. ``REVISION`` goes into every key: raise it when the meaning of a result changes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from scipy.linalg import svdvals

from exhume.attack._linalg import StackFactor, relative
from exhume.attack.identify import Diagnostics, identify
from exhume.attack.identify import State as Identified
from exhume.attack.recover import difference
from exhume.attack.session import Attack
from exhume.data import usable_clients
from exhume.errors import NotIdentifiedError
from exhume.paper.cells import CellSpec, Pick, Split, cell, pick, scenario
from exhume.paper.source import Source
from exhume.protocol.head import Head
from exhume.protocol.rules import Heads
from exhume.protocol.server import Server
from exhume.protocol.summary import Update
from exhume.simulate.trial import Cell, Recovery, Trial

__all__ = ["REVISION", "Chain", "Deletion", "Gate", "Job", "Result", "Spec", "Stack", "State"]

REVISION = 1
TOLERANCES = (1e-6, 1e-7, 1e-8, 1e-9, 1e-10)

Result = dict[str, Any]


class Spec(Protocol):
    """A unit of work: a frozen dataclass of plain data."""

    def run(self, source: Source) -> Result:
        """Do the work."""
        ...


@dataclass(frozen=True)
class Job:
    """A unit of work on some features."""

    source: Source
    spec: Spec

    @property
    def inputs(self) -> dict[str, Any]:
        """Everything that decides the result."""
        return {
            "kind": type(self.spec).__name__,
            "revision": REVISION,
            "data": self.source.data,
            "encoder": self.source.title,
            "features": self.source.fingerprint,
            "spec": asdict(self.spec),  # type: ignore[call-overload]
        }

    @property
    def key(self) -> str:
        """Hash of the inputs; the names of data and encoder are for readers, the fingerprint counts."""
        counted = {name: value for name, value in self.inputs.items() if name not in ("data", "encoder")}
        return hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()

    def run(self) -> Result:
        """Do the work."""
        return self.spec.run(self.source)


def _diagnostics(found: Diagnostics | None) -> Result | None:
    if found is None:
        return None
    return {**asdict(found), "kappa_X": found.kappa_X, "kappa_Z": found.kappa_Z}


def _recovery(found: Recovery | None) -> Result | None:
    return None if found is None else asdict(found)


def _flat(trial: Trial) -> Result:
    return {
        "rows": trial.rows,
        "label": trial.label,
        "identified": trial.identified,
        "reason": trial.reason,
        "difference": _recovery(trial.recovery("difference")),
        "rank_one": _recovery(trial.recovery("rank_one")),
        "replay": asdict(trial.replays[0]) if trial.replays else None,
        "state_pre": trial.state_error_pre,
        "state_post": trial.state_error_post,
        "bound": trial.amplification,
        "post": _diagnostics(trial.post),
        "residuals": None if trial.residuals is None else asdict(trial.residuals),
        "cost": asdict(trial.cost),
    }


@dataclass(frozen=True)
class Deletion:
    """One deletion under attack: the state before is identified once per cell, then delete, identify, replay."""

    cell: CellSpec
    pick: Pick

    def run(self, source: Source) -> Result:
        """Attack and score."""
        live = cell(source, self.cell)
        return _flat(live.trial(pick(live.scenario, self.cell.split, self.pick)))


@dataclass(frozen=True)
class State:
    """Identification of the state before any deletion."""

    cell: CellSpec

    def run(self, source: Source) -> Result:
        """Identify and score."""
        live = cell(source, self.cell)
        moment = live.server.ledger.summary.moment
        return {
            "identified": live.before is not None,
            "reason": live.reason,
            "diagnostics": _diagnostics(live.diagnostics),
            "state_error": live.state_error,
            "moment_error": None if live.before is None else relative(live.before.G - moment, moment),
            "residuals": asdict(live.residuals),
            **_largest(live),
        }


def _largest(live: Cell) -> Result:
    """Return the largest request of the probe, and the largest change of the head from one release to the next."""
    heads = [live.W, *(live.W + block for block in np.hsplit(live.transcript.X, live.transcript.responses))]
    return {
        "request": max(step.update.magnitude for step in live.probe.steps()),
        "head_change": max(float(np.linalg.norm(b - a)) for a, b in itertools.pairwise(heads)),
    }


@dataclass(frozen=True)
class Stack:
    """Singular values of a response stack, before any deletion or after that of one class."""

    cell: CellSpec
    deleted: int | None

    def run(self, source: Source) -> Result:
        """Probe and decompose."""
        live = cell(source, self.cell)
        transcript = live.transcript
        if self.deleted is not None:
            server = Server(live.server.ledger.copy(), release=Heads(self.cell.heads))
            rows = pick(live.scenario, self.cell.split, Pick("class", self.deleted))
            server.submit(Update.deleting(live.scenario.summary(rows)), "honest")
            transcript = live.attack.elsewhere(server.as_target("attacker")).run(live.probe)
        values = svdvals(StackFactor.of(transcript.X).triangle, check_finite=False)
        return {
            "sigma_max": float(values[0]),
            "sigma_min": float(values[-1]),
            "ranks": [int(np.count_nonzero(values > tolerance * values[0])) for tolerance in TOLERANCES],
        }


@dataclass(frozen=True)
class Gate:
    """The full-rank gate over the clients of a split."""

    split: Split

    def run(self, source: Source) -> Result:
        """Count the usable clients and describe the attacker."""
        stage = scenario(source, self.split)
        return {
            "usable": len(usable_clients(stage.features, stage.parts)),
            "attacker": stage.attacker,
            "attacker_rows": len(stage.parts[stage.attacker]),
        }


@dataclass(frozen=True)
class Chain:
    """Sequential deletions on two branches: the honest one keeps them, the attacked one replays each at once.

    ``fresh`` identifies the state anew before every deletion, as the paper's program does: 109 responses per event.
    Without it the attacker relies on the first state, which each replay restores (55 responses), and replay errors do
    not add up. A step that is not identified is not replayed.
    """

    cell: CellSpec
    level: str
    seed: int = 0
    fresh: bool = True

    def run(self, source: Source) -> Result:
        """Walk both branches; one record per deletion."""
        live = cell(source, self.cell)
        found = source.load()
        count = {"class": found.classes, "client": self.cell.split.members}[self.level]
        honest, attacked = (Server(live.server.ledger.copy(), release=Heads(self.cell.heads)) for _ in range(2))
        attack = live.attack.elsewhere(attacked.as_target("attacker"))

        def accuracy(of: Server) -> float:
            return Head(of.ledger.head()).accuracy(found.test_features, found.test_labels)

        steps: list[Result] = []
        before = live.before
        for number in range(count):
            rows = pick(live.scenario, self.cell.split, Pick(self.level, number, self.seed))
            deleted = live.scenario.summary(rows)
            step: Result = {"rows": len(rows), "identified": False, "gram": None, "moment": None}
            if self.fresh and number:
                before = self._state(attack, live)
            attacked.submit(Update.deleting(deleted), "honest")
            after = self._state(attack, live)
            if before is not None and after is not None:
                block = difference(before, after)
                attack.replay(block)
                step["identified"] = True
                step["gram"] = relative(block.gram - deleted.gram, deleted.gram)
                step["moment"] = relative(block.moment - deleted.moment, deleted.moment)
            honest.submit(Update.deleting(deleted), "honest")
            step["head_error"] = relative(attacked.ledger.head() - live.W, live.W)
            step["attacked"], step["honest"] = accuracy(attacked), accuracy(honest)
            steps.append(step)
        start = Head(live.W).accuracy(found.test_features, found.test_labels)
        return {"start": start, "steps": steps}

    def _state(self, attack: Attack, live: Cell) -> Identified | None:
        try:
            return identify(attack.run(live.probe), tolerance=self.cell.tolerance)
        except NotIdentifiedError:
            return None
