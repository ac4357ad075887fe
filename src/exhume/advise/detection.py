"""The sequence detector's promise and power: fresh honest traffic, and complete attacks that pass the norm test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from exhume.advise.calibrated import Context, entry_of, honest_logs
from exhume.advise.defences import defence
from exhume.defence import admission
from exhume.defence.admission import Detector
from exhume.errors import ExhumeError
from exhume.protocol.summary import Update
from exhume.simulate import attackers
from exhume.simulate.federation import Federation
from exhume.simulate.prober import Prober
from exhume.simulate.scenario import Scenario, spread_records
from exhume.simulate.siege import BUSY

__all__ = ["Power", "detector_of", "false_positives", "power"]

SILENT = ("oracle", "redraw", "informed", "passive", "history-blind", "additions-blind")
"""Attackers that read heads without a probe sequence of their own, or are told what they need."""


@dataclass(frozen=True)
class Power:
    """How often one attack's whole sequence is flagged."""

    attack: str
    sequences: int
    flagged: int
    """Of the sequences with probes, cancellations and replay."""
    probing_flagged: int
    """Of the same sequences cut off before the deletion and all that follows it."""
    messages: float
    """Mean number of the attacker's accepted messages."""


def detector_of(scenario: Scenario) -> Detector:
    """Return the calibrated detector of the matrix."""
    entry = entry_of(admission.REGISTRY, ("detector", {}), Context(scenario))
    return Detector(d=scenario.d, c=scenario.classes, **entry.options)


def false_positives(scenario: Scenario, logs: int = 40) -> tuple[int, int]:
    """Return flagged clients and all clients of fresh honest traffic."""
    rule = detector_of(scenario)
    scores = [s for log in honest_logs(scenario, logs, seed=13) for s in rule.judge(log).values()]
    return sum(s > rule.threshold for s in scores), len(scores)


def power(scenario: Scenario, runs: int = 5) -> Iterator[Power]:
    """Run every probing attack against a server with the norm test and judge the whole sequences afterwards."""
    rule = detector_of(scenario)
    attacker = scenario.names[scenario.attacker]
    for name, entry in attackers.REGISTRY.items():
        if entry.aim != "read" or name in SILENT:
            continue
        whole, probing, lengths = [], [], []
        for record in spread_records(scenario, runs):
            log, before = _sequence(scenario, name, int(record))
            whole.append(rule.judge(log).get(attacker, -np.inf) > rule.threshold)
            probing.append(rule.judge(log[:before]).get(attacker, -np.inf) > rule.threshold)
            lengths.append(sum(client == attacker for client, _ in log))
        yield Power(name, len(whole), sum(whole), sum(probing), float(np.mean(lengths)))


def _sequence(scenario: Scenario, attack: str, record: int) -> tuple[list[tuple[str, Update]], int]:
    """Return a server's log with one attack in it, and its length when the record was deleted."""
    fed = Federation.behind(scenario, defence("norm-limit").config(Context(scenario)), seed=scenario.seed)
    fed.log = []
    # The uploads of all clients came before the log; the attacker's own is what makes it a client at all.
    prober = Prober(fed, np.random.default_rng([scenario.seed, record]), BUSY, averaged=25)
    for _ in range(2 * len(scenario.honest)):
        fed.background(prober.rng)
    try:
        follow = attackers.REGISTRY[attack].learn(prober)
        before = len(fed.log)
        fed.delete_somehow(record)
        follow(prober)
    except (ExhumeError, np.linalg.LinAlgError):
        before = len(fed.log)
    prober.send(prober.adding(np.array([record])))
    return fed.log, before
