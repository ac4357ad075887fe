"""Settings of an attack as plain data, and the live cells that workers make of them (and keep for the next job)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from exhume.attack.probes.base import Probe, Step
from exhume.attack.probes.designed import designed
from exhume.attack.probes.own_data import own_data
from exhume.attack.probes.random import random
from exhume.data import dirichlet, iid, select_attacker
from exhume.errors import unknown_name
from exhume.numerics import Rows
from exhume.paper.feature_source import FeatureSource
from exhume.protocol.summary import Summary, Update
from exhume.simulate.federation import Federation
from exhume.simulate.scenario import Scenario
from exhume.simulate.trial import Campaign

__all__ = ["CellSpec", "Rehearsed", "Split", "Victim", "cell", "dealt", "request_p99", "scenario", "victim_rows"]

DRAWN_RECORDS = 100
DRAWN_CLIENTS = 20


@dataclass(frozen=True)
class Split:
    """A split into clients, Dirichlet or (alpha None) IID; the attacker is the first with full feature rank."""

    seed: int
    members: int = 50
    alpha: float | None = 0.05

    def deal(self, labels: Rows, seed: int | None = None) -> tuple[Rows, ...]:
        """Return the rows of each client."""
        chosen = self.seed if seed is None else seed
        if self.alpha is None:
            return iid(labels, self.members, chosen)
        return dirichlet(labels, self.members, self.alpha, chosen)


@dataclass(frozen=True)
class CellSpec:
    """One probe against one server. ``sequence`` seeds the batch permutation or the random increments."""

    probe: str
    precision: str
    split: Split
    responses: int | None = None
    sequence: int = 0
    scale: float = 1e4
    clipped: bool = False
    """Whether the scale is lowered until no request is larger than the honest 99th percentile."""
    gamma: float = 1e-3
    tolerance: float = 1e-10


@dataclass(frozen=True)
class Victim:
    """What is deleted: the ``number``-th record, class or client of a draw.

    Draws are made whole (100 records, 20 clients), so that a smaller run takes the first of the same ones. ``others``
    draws from what the attacker does not hold; else records come from all rows and clients from the split ``seed``.
    """

    kind: str
    number: int
    seed: int = 0
    others: bool = False


@dataclass(frozen=True)
class Rehearsed:
    """A probe with its updates summed once: the same messages go out before and after every deletion."""

    inner: Probe

    @property
    def name(self) -> str:
        """The probe's registered name."""
        return self.inner.name

    @property
    def responses(self) -> int:
        """How many responses go into the stacks."""
        return self.inner.responses

    @cached_property
    def _steps(self) -> tuple[Step, ...]:
        return tuple(self.inner.steps())

    def steps(self) -> Iterator[Step]:
        """Yield the submissions in order."""
        return iter(self._steps)

    def cancel(self, total: Summary, sent: int) -> Update:
        """Return the update that takes the accumulated total back."""
        return self.inner.cancel(total, sent)


def dealt(source: FeatureSource, split: Split, gamma: float = 1e-3) -> Scenario:
    """Deal the rows of a split out, with the paper's attacker."""
    found = source.load()
    parts = split.deal(found.train_labels)
    attacker = select_attacker(found.train_features, parts)
    return Scenario(
        found.train_features,
        found.train_labels,
        found.classes,
        parts,
        attacker,
        gamma,
        test_features=found.test_features,
        test_labels=found.test_labels,
    )


@lru_cache(maxsize=2)
def scenario(source: FeatureSource, split: Split, gamma: float = 1e-3) -> Scenario:
    """Return the rows of a split, kept for the next cell with their sum over all clients."""
    return dealt(source, split, gamma)


def _probe(source: FeatureSource, spec: CellSpec, stage: Scenario) -> Probe:
    rng = np.random.default_rng(spec.sequence)
    match spec.probe:
        case "designed":
            scale = clipped_scale(source, stage.d, stage.classes) if spec.clipped else spec.scale
            return designed(stage.d, stage.classes, scale=scale)
        case "random":
            return random(stage.d, stage.classes, rng=rng, responses=spec.responses, scale=spec.scale)
        case "own_data":
            responses = spec.responses or 2 * math.ceil(stage.d / stage.classes)
            return own_data(*stage.own, stage.classes, responses=responses, rng=rng)
    raise unknown_name("probe", spec.probe, ["designed", "random", "own_data"])


@lru_cache(maxsize=1)
def cell(source: FeatureSource, spec: CellSpec) -> Campaign:
    """Return the cell with its state before the deletion identified."""
    stage = scenario(source, spec.split, spec.gamma)
    return Campaign(
        Federation.bare(stage, spec.precision),
        Rehearsed(_probe(source, spec, stage)),
        tolerance=spec.tolerance,
        project=spec.probe == "own_data" and spec.precision == "float64",
    )


def victim_rows(stage: Scenario, split: Split, victim: Victim) -> Rows:
    """Return the rows to delete."""
    rng = np.random.default_rng(victim.seed)
    if victim.kind == "record":
        pool = stage.others if victim.others else np.arange(len(stage.features))
        drawn = rng.choice(pool, min(DRAWN_RECORDS, len(pool)), replace=False)
        return np.asarray(drawn[victim.number : victim.number + 1], dtype=np.intp)
    if victim.kind == "class":
        return np.flatnonzero(stage.labels == victim.number)
    if not victim.others:
        return split.deal(stage.labels, victim.seed)[victim.number]
    honest = np.delete(np.arange(len(stage.parts)), stage.attacker)
    drawn = rng.choice(honest, min(DRAWN_CLIENTS, len(honest)), replace=False)
    return stage.parts[int(drawn[victim.number])]


def request_p99(source: FeatureSource) -> float:
    """Return the 99th percentile of the size of an honest request to delete one record, over all training rows."""
    squared = (source.load().train_features ** 2).sum(axis=1)
    return float(np.percentile(np.sqrt(squared**2 + squared), 99))


def clipped_scale(source: FeatureSource, d: int, c: int) -> float:
    """Return the scale at which the largest designed request is as large as an honest one at the 99th percentile."""
    largest = max((step.update for step in designed(d, c, scale=1.0).steps()), key=lambda update: update.magnitude)
    grams = 2 * float(np.vdot(largest.add.gram, largest.add.gram))
    moments = 2 * float(np.vdot(largest.add.moment, largest.add.moment))
    # magnitude^2 = grams s^4 + moments s^2, solved for s^2
    limit = request_p99(source) ** 2
    return math.sqrt((math.sqrt(moments**2 + 4 * grams * limit) - moments) / (2 * grams))
