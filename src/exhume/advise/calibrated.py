"""Rules as an operator sets them up: thresholds from calibration rows, noise that the accuracy bears."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from exhume.defence.admission import AlgebraicOwnership, Detector, NormLimit
from exhume.defence.calibration import sigma_within
from exhume.defence.config import Entry
from exhume.defence.default import before_gram, sigma_for
from exhume.protocol.ledger import Ledger
from exhume.protocol.summary import Summary, Update
from exhume.simulate.rules import bounds_of, uploads_of
from exhume.simulate.scenario import Scenario

__all__ = ["Context", "RuleOptions", "entry_of", "honest_blocks", "honest_logs", "known_rules"]

SEED = 20260
"""The secret of all sketches in the matrix."""

NOISE_KEY = "00112233445566778899aabbccddeeff"
"""The secret of all noise in the matrix, fixed so that a run can be repeated."""

Log = list[tuple[str, Update]]

RuleOptions = tuple[str, Mapping[str, Any]]
"""A rule by name, with the options that differ from how an operator sets it up."""


@dataclass(frozen=True, eq=False)
class Context:
    """What an operator has when it sets its server up."""

    scenario: Scenario
    keys: Mapping[str, str] = field(default_factory=dict)
    colluders: int = 1
    points: float = 0.2
    """Test accuracy that the operator can give up, which noise is calibrated to."""

    @property
    def sigma(self) -> float:
        """Noise that the accuracy bears, measured on the operator's rows with everybody's data in the ledger."""
        return _sigma(self.scenario, self.points)


def honest_blocks(scenario: Scenario, count: int = 320) -> Iterator[Summary]:
    """Yield blocks of honest batches of the calibration rows: one row to all of them, sizes even on a log scale."""
    rng = np.random.default_rng([scenario.seed, 11])
    most = len(scenario.calibration)
    for size in np.exp(rng.uniform(0, np.log(most + 1), count)).astype(int):
        yield scenario.summary(rng.choice(scenario.calibration, min(max(size, 1), most), replace=False))


def honest_logs(scenario: Scenario, logs: int = 16, clients: int = 8, seed: int = 12) -> Iterator[Log]:
    """Yield honest servers' traffic: an upload in a few messages, later additions, deletions of a few rows."""
    rng = np.random.default_rng([scenario.seed, seed])
    # Clients differ in size: from half the smallest honest one to the largest client there is.
    sizes = [len(part) for part in scenario.parts]
    upload = (0.5 * min(len(scenario.parts[k]) for k in scenario.honest), float(max(sizes)))
    for _ in range(logs):
        plans = [list(_one_client(scenario, upload, rng)) for _ in range(clients)]
        log: Log = []
        while any(plans):
            able = [k for k, plan in enumerate(plans) if plan]
            k = int(rng.choice(able))
            log.append((f"client {k}", plans[k].pop(0)))
        yield log


def _one_client(scenario: Scenario, upload: tuple[float, float], rng: np.random.Generator) -> Iterator[Update]:
    pool = rng.permutation(scenario.calibration)
    size = int(np.exp(rng.uniform(*np.log(np.maximum(upload, 4.0)))))
    mine = pool[: min(size, len(pool) * 2 // 3)]
    spare = pool[len(mine) :]
    for batch in np.array_split(mine, 3):
        if len(batch):
            yield Update.adding(scenario.summary(batch))
    held = list(mine)
    for _ in range(int(rng.integers(0, 10))):
        if rng.random() < 0.6 and len(spare):
            batch, spare = spare[: rng.integers(1, 4)], spare[4:]
            if len(batch):
                held += list(batch)
                yield Update.adding(scenario.summary(batch))
        else:
            out = [held.pop(int(rng.integers(len(held)))) for _ in range(min(int(rng.integers(1, 4)), len(held) - 1))]
            if out:
                yield Update.deleting(scenario.summary(np.array(out)))


@lru_cache(maxsize=2)
def _sigma(scenario: Scenario, points: float) -> float:
    rows, held = scenario.calibration, np.concatenate(scenario.parts)
    ledger = Ledger(scenario.summary(held), scenario.gamma)
    found = sigma_within(ledger, scenario.features[rows], scenario.labels[rows], points, seed=scenario.seed)
    # A sample that happens to bear much noise proves little: never more than the rule of thumb.
    return min(found, sigma_for(len(held), scenario.d))


@lru_cache(maxsize=2)
def thresholds(scenario: Scenario) -> dict[str, float]:
    """Return norm limits twice the largest honest block of as many rows."""
    made = NormLimit.calibrated(honest_blocks(scenario), rate=0.0, slack=2.0)
    return {str(k): t for k, t in made.thresholds.items()}


@lru_cache(maxsize=2)
def _detector(scenario: Scenario) -> dict[str, Any]:
    return Detector.calibrated(honest_logs(scenario), rate=0.02, seed=SEED).options() | {"seed": SEED}


def least_norm(scenario: Scenario) -> float:
    """Return the length that no honest feature vector is shorter than, measured on the calibration rows."""
    return AlgebraicOwnership.measure(scenario.features[scenario.calibration])


OPTIONS: dict[str, Callable[[Context], dict[str, Any]]] = {
    "bounded-influence": lambda x: bounds_of(x.scenario).options(),
    "signed-messages": lambda x: {"keys": dict(x.keys)},
    "norm-limit": lambda x: {"thresholds": thresholds(x.scenario)},
    "algebraic-ownership": lambda x: {"least_norm": least_norm(x.scenario)},
    "minimum-rows": lambda x: {"rows": 8},
    "detector": lambda x: _detector(x.scenario),
    "isotropic-noise": lambda x: {"sigma": 1e-3},
    "posterior-noise": lambda x: {"sigma": x.sigma},
    "deletion-mask": lambda x: {"sigma": x.sigma, "colluders": x.colluders},
    "continual-noise": lambda x: {"sigma": before_gram(x.sigma), "founding": uploads_of(x.scenario)},
    "privacy-budget": lambda x: {"sigma": x.sigma, "mu": 2.0, "colluders": x.colluders},
    "every-k-changes": lambda x: {"changes": 8},
    "min-clients": lambda x: {"clients": 3},
    "response-budget": lambda x: {"responses": max(x.scenario.d // x.scenario.classes // 2, 1)},
    "identification": lambda x: {"margin": max(x.scenario.d // 4, 1), "colluders": x.colluders},
}
"""Options of rules that an operator calibrates; any other rule is taken as its class gives an example of it."""

LEFT_OUT = {"columns", "low-rank", "top-eigenspace", "minimum-interval"}
"""Rules that are no defences of the matrix: parts of a head (`benchmarks/release_rules.py`), and a wall clock."""


def entry_of(registry: Mapping[str, Any], rule: RuleOptions, context: Context) -> Entry:
    """Return a rule as an operator sets it up, secrets fixed."""
    name, options = rule
    made = registry[name]
    wanted = inspect.signature(made).parameters
    secrets = {k: v for k, v in (("seed", SEED), ("key", NOISE_KEY)) if k in wanted}
    usual = OPTIONS[name](context) if name in OPTIONS else getattr(made, "example", {})
    return Entry.of(name, **{**secrets, **usual, **options})


def known_rules(registry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rules that can be set up here: those with options above, with an example, and those that need none."""
    for name, rule in registry.items():
        needed = [p for p in inspect.signature(rule).parameters.values() if p.default is inspect.Parameter.empty]
        able = name in OPTIONS or hasattr(rule, "example")
        if name not in LEFT_OUT and (able or all(p.name in ("d", "c") or p.kind not in _NAMED for p in needed)):
            yield name


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
