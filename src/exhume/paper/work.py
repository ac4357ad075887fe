"""The units of work that tables ask for: each is plain data, runs anywhere, and returns plain numbers.

The attacker's part sees only heads and its own messages (`exhume.simulate.trial`); the hidden ledger is read here for
scoring alone.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from exhume.attack.estimate import direct
from exhume.attack.recover import difference
from exhume.attack.session import Attack
from exhume.attack.state import Diagnostics, State
from exhume.data import usable_clients
from exhume.errors import NotIdentifiedError
from exhume.jobs.key import key_of
from exhume.numerics import relative, symmetric
from exhume.paper.cells import CellSpec, Split, Victim, cell, scenario, victim_rows
from exhume.paper.feature_source import FeatureSource
from exhume.simulate.federation import Federation
from exhume.simulate.scoring import Replayed, Scored
from exhume.simulate.trial import Campaign, Trial

__all__ = [
    "TOLERANCES",
    "AttackedDeletion",
    "Job",
    "ResponseStack",
    "Result",
    "SequentialDeletions",
    "Spec",
    "StateBefore",
    "UsableClients",
]

TOLERANCES = (1e-6, 1e-7, 1e-8, 1e-9, 1e-10)

Result = dict[str, Any]


class Spec(Protocol):
    """A unit of work: a frozen dataclass of plain data."""

    def run(self, source: FeatureSource) -> Result:
        """Do the work."""
        ...


@dataclass(frozen=True)
class Job:
    """A unit of work on some features."""

    source: FeatureSource
    spec: Spec

    @property
    def key(self) -> str:
        """Names the result: hash of the unit's code, of its data, and of the content of the features."""
        return key_of(type(self.spec), {"features": self.source.fingerprint, "spec": self.spec})

    def run(self) -> Result:
        """Do the work."""
        return self.spec.run(self.source)


def _diagnostics(found: Diagnostics | None) -> Result | None:
    if found is None:
        return None
    return {**asdict(found), "kappa_X": found.kappa_X, "kappa_Z": found.kappa_Z}


def _recovery(found: Scored | None) -> Result | None:
    return None if found is None else asdict(found)


def _replay(found: Replayed | None) -> Result | None:
    """Return the numbers of a replay, without the head and what it cost."""
    if found is None:
        return None
    return {name: value for name, value in vars(found).items() if name not in ("head", "cost", "refused")}


def _flat(trial: Trial) -> Result:
    return {
        "rows": trial.rows,
        "label": trial.label,
        "identified": trial.identified,
        "reason": trial.reason,
        "difference": _recovery(trial.recovery("difference")),
        "rank_one": _recovery(trial.recovery("rank-one")),
        "replay": _replay(trial.replay("difference")),
        "state_pre": trial.state_error_pre,
        "state_post": trial.state_error_post,
        "bound": trial.amplification,
        "post": _diagnostics(trial.post),
        "residuals": None if trial.residuals is None else asdict(trial.residuals),
        "cost": asdict(trial.cost),
    }


@dataclass(frozen=True)
class AttackedDeletion:
    """One deletion under attack: the state before is identified once per cell, then delete, identify, replay."""

    cell: CellSpec
    victim: Victim

    def run(self, source: FeatureSource) -> Result:
        """Attack and score."""
        live = cell(source, self.cell)
        rows = victim_rows(live.scenario, self.cell.split, self.victim)
        return _flat(live.trial(rows, kind=self.victim.kind))


@dataclass(frozen=True)
class StateBefore:
    """Identification of the state before any deletion."""

    cell: CellSpec

    def run(self, source: FeatureSource) -> Result:
        """Identify and score."""
        live = cell(source, self.cell)
        moment = live.federation.server.ledger.summary.moment
        return {
            "identified": live.before is not None,
            "reason": live.reason,
            "diagnostics": _diagnostics(live.diagnostics),
            "state_error": live.state_error,
            **_by_svd(live),
            "moment_error": None if live.before is None else relative(live.before.G - moment, moment),
            "residuals": asdict(live.residuals),
            **_largest(live),
        }


def _by_svd(live: Campaign) -> Result:
    """Return the relative errors of A from the same answers by an SVD: NumPy's ``pinv`` and its ``lstsq``."""
    if live.before is None:
        return {"state_error_pinv": None, "state_error_lstsq": None}
    X, Z = live.transcript.X, live.transcript.Z
    found = {"pinv": Z @ np.linalg.pinv(X), "lstsq": np.linalg.lstsq(X.T, Z.T, rcond=None)[0].T}
    return {f"state_error_{name}": relative(symmetric(A) - live.A, live.A) for name, A in found.items()}


def _largest(live: Campaign) -> Result:
    """Return the largest request of the probe, and the largest change of the head from one release to the next."""
    heads = [live.W, *(live.W + block for block in np.hsplit(live.transcript.X, live.transcript.responses))]
    return {
        "request": max(step.update.magnitude for step in live.probe.steps()),
        "head_change": max(float(np.linalg.norm(b - a)) for a, b in itertools.pairwise(heads)),
    }


@dataclass(frozen=True)
class ResponseStack:
    """Singular values of a response stack, before any deletion or after that of one class."""

    cell: CellSpec
    deleted: int | None

    def run(self, source: FeatureSource) -> Result:
        """Probe and decompose."""
        live = cell(source, self.cell)
        transcript = live.transcript
        if self.deleted is not None:
            federation = live.federation.fork()
            federation.delete(victim_rows(live.scenario, self.cell.split, Victim("class", self.deleted)))
            transcript = live.attack.facing(federation.target()).run(live.probe)
        values = transcript.singular_values()
        return {
            "sigma_max": float(values[0]),
            "sigma_min": float(values[-1]),
            "ranks": [int(np.count_nonzero(values > tolerance * values[0])) for tolerance in TOLERANCES],
        }


@dataclass(frozen=True)
class UsableClients:
    """The full-rank gate over the clients of a split."""

    split: Split

    def run(self, source: FeatureSource) -> Result:
        """Count the usable clients and describe the attacker."""
        stage = scenario(source, self.split)
        return {
            "usable": len(usable_clients(stage.features, stage.parts)),
            "attacker": stage.attacker,
            "attacker_rows": len(stage.parts[stage.attacker]),
        }


@dataclass(frozen=True)
class SequentialDeletions:
    """Sequential deletions on two branches: the honest one keeps them, the attacked one replays each at once.

    ``fresh`` identifies the state anew before every deletion, as the paper's program does: 109 responses per event.
    Without it the attacker relies on the first state, which each replay restores (55 responses), and replay errors do
    not add up. A step that is not identified is not replayed.
    """

    cell: CellSpec
    kind: str
    seed: int = 0
    fresh: bool = True

    def run(self, source: FeatureSource) -> Result:
        """Walk both branches; one record per deletion."""
        live = cell(source, self.cell)
        count = {"class": live.scenario.classes, "client": self.cell.split.members}[self.kind]
        honest, attacked = live.federation.fork(), live.federation.fork()
        attack = live.attack.facing(attacked.target())

        def accuracy(of: Federation) -> float | None:
            return live.scenario.accuracy(of.server.ledger.head())

        steps: list[Result] = []
        before = live.before
        for number in range(count):
            rows = victim_rows(live.scenario, self.cell.split, Victim(self.kind, number, self.seed))
            deleted = live.scenario.summary(rows)
            step: Result = {"rows": len(rows), "identified": False, "gram": None, "moment": None}
            if self.fresh and number:
                before = self._state(attack, live)
            attacked.delete(rows)
            after = self._state(attack, live)
            if before is not None and after is not None:
                block = difference(before, after).block
                attack.replay(block)
                step["identified"] = True
                step["gram"] = relative(block.gram - deleted.gram, deleted.gram)
                step["moment"] = relative(block.moment - deleted.moment, deleted.moment)
            honest.delete(rows)
            step["head_error"] = relative(attacked.server.ledger.head() - live.W, live.W)
            step["attacked"], step["honest"] = accuracy(attacked), accuracy(honest)
            steps.append(step)
        return {"start": live.scenario.accuracy(live.W), "steps": steps}

    def _state(self, attack: Attack, live: Campaign) -> State | None:
        try:
            return direct(attack.run(live.probe), tolerance=self.cell.tolerance)
        except NotIdentifiedError:
            return None
