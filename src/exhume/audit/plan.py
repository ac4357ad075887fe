"""From settings to work: the federation, the cells (probe x head precision) and the deletions of each."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import exhume
from exhume.attack.probes import Probe, build
from exhume.attack.probes.registry import Means
from exhume.audit.config import Settings
from exhume.audit.configured import CONFIGURED, resolve
from exhume.audit.records import SCHEMA
from exhume.data import FeatureSet, dirichlet, load_features, usable_clients
from exhume.data.extract import Tick
from exhume.defence.config import Config
from exhume.numerics import Rows
from exhume.simulate.scenario import Scenario

__all__ = ["Deletion", "Plan", "Task", "code_digest", "prepare"]


@dataclass(frozen=True)
class Deletion:
    """One deletion to attack."""

    kind: str
    what: str
    """Which row, class or client."""


@dataclass(frozen=True)
class Task:
    """One unit of work: a cell's own diagnostics (no deletion), or one trial of it."""

    probe: str
    heads: str
    deletion: Deletion | None
    key: str
    """Hash of everything that the outcome depends on."""


@dataclass(frozen=True)
class Plan:
    """The federation under audit and who plays which part in it."""

    settings: Settings
    features: FeatureSet
    scenario: Scenario
    usable: tuple[int, ...]
    """The clients whose own rows have full feature rank."""
    defence: Config | None = None
    """The operator's own settings."""

    @property
    def nonnegative(self) -> bool:
        """Whether the encoder gives no negative feature, as far as the attacker can tell from its own rows."""
        return bool(self.scenario.own[0].min() >= 0)

    def probe(self, name: str) -> Probe:
        """Make a probe of the attacker's means."""
        own, labels = self.scenario.own
        rng = np.random.default_rng([self.settings.seed, 1, zlib.crc32(name.encode())])
        means = Means(
            self.scenario.d, self.scenario.classes, own, labels, rng, self.settings.scale, self.settings.responses
        )
        return build(name, means)

    def rows(self, deletion: Deletion) -> Rows:
        """Return the rows that a deletion takes away."""
        number = int(deletion.what.split()[-1])
        if deletion.kind == "sample":
            return np.array([number])
        if deletion.kind == "class":
            return np.flatnonzero(self.scenario.labels == number)
        return self.scenario.parts[number]

    def deletions(self) -> list[Deletion]:
        """List the deletions that every cell faces: random honest rows, each class, each honest client."""
        rng = np.random.default_rng([self.settings.seed, 2])
        trials, scenario, found = self.settings.trials, self.scenario, []
        if "sample" in self.settings.delete:
            size = min(trials, len(scenario.others))
            found += [Deletion("sample", f"row {i}") for i in rng.choice(scenario.others, size, replace=False)]
        if "class" in self.settings.delete:
            found += [Deletion("class", f"class {k}") for k in np.unique(scenario.labels)[:trials]]
        if "client" in self.settings.delete:
            honest = [k for k in range(len(scenario.parts)) if k != scenario.attacker]
            found += [Deletion("client", f"client {k}") for k in honest[:trials]]
        return found

    def tasks(self) -> list[Task]:
        """List all work in the order of the report."""
        whats: list[Deletion | None] = [None, *self.deletions()]
        return [
            Task(probe, heads, deletion, self._key(probe, heads, deletion))
            for deletion in whats
            for probe in self.settings.probe
            for heads in self.settings.columns
        ]

    def _key(self, probe: str, heads: str, deletion: Deletion | None) -> str:
        inputs: dict[str, Any] = {
            "schema": SCHEMA,
            "code": code_digest(),
            "features": self.features.fingerprint,
            "settings": self.settings.numbers(),
            "probe": probe,
            "heads": heads,
            "deletion": None if deletion is None else [deletion.kind, deletion.what],
        }
        if heads == CONFIGURED and self.defence is not None:
            inputs["defence"] = self.defence.model_dump(mode="json")
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:32]


def prepare(settings: Settings, tick: Tick | None = None, *, images: bool = False) -> Plan:
    """Load the features, split them among the clients, choose the attacker.

    The attacker is the first client whose own rows have full feature rank, as in the paper. Where there is none, the
    client with most rows attacks: designed probes need no data, and probes of own data then fail with their rank.
    """
    features = load_features(
        settings.data,
        settings.encoder,
        dim=settings.width,
        seed=settings.seed,
        home=settings.home,
        path=settings.features,
        labels=settings.labels,
        images=images,
        tick=tick,
    )
    parts = dirichlet(features.train_labels, settings.clients, settings.alpha, settings.seed)
    usable = usable_clients(features.train_features, parts)
    attacker = usable[0] if usable else int(np.argmax([len(part) for part in parts]))
    scenario = Scenario(
        features.train_features, features.train_labels, features.classes, parts, attacker, settings.gamma
    )
    defence = None
    if settings.defence is not None:
        defence = resolve(settings.defence, scenario.d, len(scenario.features))
    return Plan(settings, features, scenario, usable, defence)


_NUMBERS = (
    "configured",
    "defended",
    "defended_work",
    "detect",
    "exposure",
    "federation",
    "listening",
    "measures",
    "plan",
    "work",
)
"""The modules of this room that make numbers."""


@cache
def code_digest() -> str:
    """Hash the code that makes the numbers, so that trials of another version are never taken for this one's."""
    root = Path(exhume.__file__).parent
    files = [*sorted(root.glob("protocol/*.py")), *sorted(root.glob("attack/**/*.py"))]
    files += sorted(root.glob("defence/**/*.py"))
    files += sorted(root.glob("simulate/**/*.py"))
    files += [root / "audit" / f"{name}.py" for name in _NUMBERS]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
