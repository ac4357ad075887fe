"""The sequence detector's promise and power: fresh honest traffic, and complete attacks that pass the norm test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from exhume.audit.advise.attacks import ATTACKS
from exhume.audit.advise.defences import RULES, Context, defence, honest_logs
from exhume.audit.advise.federation import ATTACKER, Federation
from exhume.audit.advise.prober import Plan, Prober
from exhume.audit.advise.setting import Setting
from exhume.audit.advise.work import BUSY
from exhume.defence.admission import Detector
from exhume.errors import ExhumeError
from exhume.protocol import Update

__all__ = ["Power", "detector_of", "false_positives", "power"]

PROBING = ("designed", "random", "label-swap", "own-data", "held-out", "fabricated", "averaging", "conditioned")


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


def detector_of(setting: Setting) -> Detector:
    """Return the calibrated detector of the matrix."""
    entry = RULES["detector"](Context(setting))
    return Detector(setting.d, setting.classes, **entry.options)


def false_positives(setting: Setting, logs: int = 40) -> tuple[int, int]:
    """Return flagged clients and all clients of fresh honest traffic."""
    rule = detector_of(setting)
    scores = [s for log in honest_logs(setting, logs, seed=13) for s in rule.judge(log).values()]
    return sum(s > rule.threshold for s in scores), len(scores)


def power(setting: Setting, runs: int = 5) -> Iterator[Power]:
    """Run every probing attack against a server with the norm test and judge the whole sequences afterwards."""
    rule = detector_of(setting)
    for attack in PROBING:
        whole, probing, lengths = [], [], []
        for row in setting.targets[:runs]:
            log, before = _sequence(setting, attack, int(row))
            whole.append(rule.judge(log).get(ATTACKER, -np.inf) > rule.threshold)
            probing.append(rule.judge(log[:before]).get(ATTACKER, -np.inf) > rule.threshold)
            lengths.append(sum(client == ATTACKER for client, _ in log))
        yield Power(attack, len(whole), sum(whole), sum(probing), float(np.mean(lengths)))


def _sequence(setting: Setting, attack: str, row: int) -> tuple[list[tuple[str, Update]], int]:
    """Return a server's log with one attack in it, and its length when the record was deleted."""
    fed = Federation(setting, defence("norm"))
    fed.log = []
    # The uploads of all clients came before the log; the attacker's own is what makes it a client at all.
    prober = Prober(fed, np.random.default_rng([setting.seed, row]), BUSY, averaged=25)
    for _ in range(2 * len(setting.honest)):
        fed.background(prober.rng)
    try:
        follow = ATTACKS[attack](prober)
        before = len(fed.log)
        fed.delete(row)
        follow(prober)
    except (ExhumeError, np.linalg.LinAlgError):
        before = len(fed.log)
    prober.send(Plan(fed.batch(np.array([row])), None))
    return fed.log, before
