"""From settings to work, made once: who holds which rows, which servers face which probes, what is deleted."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from exhume.attack import probes
from exhume.attack.probes import Probe, Resources
from exhume.audit.engines import ENGINES
from exhume.audit.records import SCHEMA
from exhume.audit.settings import KINDS, Settings
from exhume.capacity import require_federation
from exhume.data import FeatureSet, dirichlet, load_features, usable_clients
from exhume.data.extract import Tick
from exhume.defence.config import Config
from exhume.errors import DataError
from exhume.jobs.key import key_of
from exhume.jobs.run import Task
from exhume.numerics import Rows
from exhume.simulate.federation import Carrier, Federation
from exhume.simulate.lean import LEAN_FROM, LEAN_SQUARES
from exhume.simulate.rules import name_of, precision_of, resolve
from exhume.simulate.scenario import Scenario, deal, spread_records

__all__ = ["Deletion", "Facing", "Plan", "Unit", "dealt_out", "prepare"]

LEAN_SHOWN = 1000
"""Test rows of a lean audit, and rows of the attacker's that it looks at where its probes need none: for units, signs
and class means."""

MOST_SIEGED = 20
"""Deletions that an adaptive attacker faces, at most."""

BARE = "bare"
"""What reports call the server without rules."""


@dataclass(frozen=True)
class Deletion:
    """One deletion to attack."""

    kind: str
    number: int
    """Which row, class or client."""

    @property
    def what(self) -> str:
        """The deletion in words."""
        return f"{'row' if self.kind == 'record' else self.kind} {self.number}"


@dataclass(frozen=True)
class Facing:
    """One server that is attacked: the paper's at a precision, or the operator's."""

    server: str
    """`BARE`, or the name of the operator's settings."""
    precision: str

    @property
    def bare(self) -> bool:
        """Whether it is the paper's server."""
        return self.server == BARE


@dataclass(frozen=True)
class Unit:
    """One unit of work: a probe's own diagnostics (no deletion), one trial of it, or an adaptive attacker's siege."""

    facing: Facing
    probe: str | None = None
    deletion: Deletion | None = None
    attack: str | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """The federation under audit and who plays which part in it."""

    settings: Settings
    features: FeatureSet
    scenario: Scenario
    usable: tuple[int, ...] | None
    """The clients whose own rows have full feature rank; None where that was not looked at."""
    defence: Config | None = None
    """The operator's own settings."""
    dealt: Scenario | None = None
    """The same rows dealt out for attackers that know the settings; None where there are too few."""

    @property
    def facings(self) -> tuple[Facing, ...]:
        """The servers to attack: the operator's beside the paper's, or the paper's at each precision."""
        bare = tuple(Facing(BARE, precision) for precision in self.settings.precision)
        if self.defence is None or self.settings.defence is None:
            return bare
        return (Facing(name_of(self.settings.defence), precision_of(self.defence)), *bare)

    @property
    def lean(self) -> bool:
        """Whether one server, without a copy of it, serves all trials of a probe."""
        return self.settings.lean and self.scenario.d >= LEAN_FROM

    @property
    def left_out(self) -> str | None:
        """What a lean audit leaves out, in words; None for others."""
        if not self.lean:
            return None
        kinds = [f"deletions of a {kind}" for kind in KINDS if kind not in self.settings.kind]
        what = [*kinds, "the rank curve", "the exposure of clients", "what the replayed ledger is off by", "pictures"]
        return f"these are left out: {', '.join(what)}"

    @property
    def carrier(self) -> Carrier | None:
        """What carries messages between clients and server; None calls the server directly."""
        make = ENGINES[self.settings.engine]
        return None if make is None else make()

    def federation(self, facing: Facing) -> Federation:
        """Return the federation of one server."""
        if facing.bare or self.defence is None:
            solver = "low-rank" if self.lean else "direct"
            return Federation.bare(self.scenario, facing.precision, carrier=self.carrier, solver=solver)
        return Federation.behind(self.scenario, self.defence, seed=self.settings.seed, carrier=self.carrier)

    def probe(self, name: str) -> Probe:
        """Make a probe of what the attacker has."""
        own, labels = self.scenario.own
        # The dice of a probe were always seeded by its name as Python writes it.
        rng = np.random.default_rng([self.settings.seed, 1, zlib.crc32(name.replace("-", "_").encode())])
        scale, responses = self.settings.scale, self.settings.responses
        return probes.build(name, Resources(self.scenario.d, self.scenario.classes, own, labels, rng, scale, responses))

    def rows(self, deletion: Deletion) -> Rows:
        """Return the rows that a deletion takes away."""
        if deletion.kind == "record":
            return np.array([deletion.number])
        if deletion.kind == "class":
            return np.flatnonzero(self.scenario.labels == deletion.number)
        return self.scenario.parts[deletion.number]

    def deletions(self) -> list[Deletion]:
        """List the deletions that every probe faces: random honest records, each class, each honest client."""
        rng = np.random.default_rng([self.settings.seed, 2])
        trials, scenario, found = self.settings.trials, self.scenario, []
        if "record" in self.settings.kind:
            size = min(trials, len(scenario.others))
            found += [Deletion("record", int(i)) for i in rng.choice(scenario.others, size, replace=False)]
        if "class" in self.settings.kind:
            found += [Deletion("class", int(k)) for k in np.unique(scenario.labels)[:trials]]
        if "client" in self.settings.kind:
            found += [Deletion("client", k) for k in scenario.honest[:trials]]
        return found

    def sieged(self) -> Rows:
        """Return the records whose deletion adaptive attackers face."""
        assert self.dealt is not None
        return spread_records(self.dealt, min(self.settings.trials, MOST_SIEGED))

    def units(self) -> list[Unit]:
        """List all work in the order of the report."""
        whats: list[Deletion | None] = [None, *self.deletions()]
        units = [
            Unit(facing, probe, deletion)
            for deletion in whats
            for probe in self.settings.probe
            for facing in self.facings
        ]
        if self.dealt is not None:
            units += [Unit(self.facings[0], attack=name) for name in self.settings.attackers]
        return units

    def tasks(self, work: Any) -> list[Task]:
        """Return the units as tasks, with the hash of everything that each outcome depends on."""
        common = {"schema": SCHEMA, "features": self.features.fingerprint, "settings": self.settings.numbers()}
        return [
            Task(key_of(work, common | self._inputs(unit)), unit, (unit.facing, unit.probe)) for unit in self.units()
        ]

    def _inputs(self, unit: Unit) -> dict[str, Any]:
        inputs: dict[str, Any] = {"unit": asdict(unit)}
        if not unit.facing.bare and self.defence is not None:
            inputs["defence"] = self.defence.model_dump(mode="json")
        if unit.attack is not None:
            inputs["records"] = [int(row) for row in self.sieged()]
        return inputs


def prepare(settings: Settings, tick: Tick | None = None, *, given: FeatureSet | None = None) -> Plan:
    """Load the features (unless they are given), split them among the clients, choose the attacker.

    The attacker is the first client whose own rows have full feature rank, as in the paper. Where there is none, the
    client with most rows attacks: designed probes need no data, and probes of own data then fail with their rank. A
    lean audit does not look at the ranks, which would take longer than the attack: there the largest client attacks.
    """
    if (make := ENGINES[settings.engine]) is not None:
        make()  # an engine that is not installed is told now, not by every unit of work
    _require_memory(settings, settings.width if given is None else given.dim)
    found = given or load_features(
        settings.data,
        settings.encoder,
        dim=settings.width,
        seed=settings.seed,
        home=settings.home,
        path=settings.features,
        labels=settings.labels,
        on_demand=settings.lean and (settings.width or 0) >= LEAN_FROM,
        tick=tick,
    )
    parts = dirichlet(found.train_labels, settings.clients, settings.alpha, settings.seed)
    lean = settings.lean and found.train_features.shape[1] >= LEAN_FROM
    usable = None if lean else usable_clients(found.train_features, parts)
    attacker = usable[0] if usable else int(np.argmax([len(part) for part in parts]))
    scenario = Scenario(
        found.train_features,
        found.train_labels,
        found.classes,
        parts,
        attacker,
        settings.gamma,
        test_features=found.test_features[:LEAN_SHOWN] if lean else found.test_features,
        test_labels=found.test_labels[:LEAN_SHOWN] if lean else found.test_labels,
        seed=settings.seed,
        shown=LEAN_SHOWN if lean and all(map(_of_few_rows, settings.probe)) else None,
    )
    _require_memory(settings, scenario.d)
    if settings.defence is None:
        return Plan(settings, found, scenario, usable)
    config = resolve(settings.defence, scenario.d, len(scenario.features), scenario)
    return Plan(settings, found, scenario, usable, config, dealt_out(settings, found))


def _of_few_rows(probe: str) -> bool:
    entry = probes.REGISTRY[probe]
    return entry.live or entry.few_rows


def dealt_out(settings: Settings, found: FeatureSet) -> Scenario | None:
    """Return the rows dealt out for attackers that know the settings; None where there are too few."""
    train = (found.train_features, found.train_labels)
    test = (found.test_features, found.test_labels)
    try:
        return deal(train, test, found.classes, seed=settings.seed, gamma=settings.gamma)
    except DataError:
        return None


def _require_memory(settings: Settings, d: int | None) -> None:
    """Refuse more features than the audit has memory for; a lean one stays in one process."""
    if d is not None and d >= LEAN_FROM and settings.lean:
        require_federation(d, 1, LEAN_SQUARES)
    else:
        require_federation(d, settings.jobs)
