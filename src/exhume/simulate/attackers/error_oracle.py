"""An attacker that reads no head: it bisects on what the ledger can still take, before a deletion and after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exhume.numerics import Matrix
from exhume.protocol.message import Batch
from exhume.simulate.attackers._base import Attacker, Follow, Guess, guess_of_A, named
from exhume.simulate.prober import Draft, Prober

__all__ = ["ATTACKERS"]

STEPS = 24
"""Bisections of one threshold: the change that one record makes is small."""

ABOVE = 3.0
"""Where a bisection starts, relative to the threshold that the attacker's own rows would give."""

GIANT, TURNS = 3e7, 128
"""Length of a row that comes and goes, and how often at the most: rules that allow for its rounding allow for more.

It has one number that is not zero. So rounding moves one number of the ledger's gram, by at most 2^-4, the first time.
"""


@dataclass(frozen=True, eq=False)
class _Scale:
    """Deletions of one class's mean g, t times: the ledger can take them exactly while ``t g' A^-1 g < 1``."""

    mean: Matrix
    label: int
    most: float

    @classmethod
    def of(cls, prober: Prober, label: int) -> _Scale:
        s = prober.federation.scenario
        mean = s.features[s.known][s.labels[s.known] == label].mean(axis=0)
        A = guess_of_A(prober) + s.gamma * np.eye(s.d)
        return cls(mean, label, ABOVE / float(mean @ np.linalg.solve(A, mean)))

    def deleting(self, times: float) -> Draft:
        return Draft(None, Batch(np.sqrt(times) * self.mean[None, :], np.array([self.label])))

    @property
    def weight(self) -> float:
        """The trace of the largest deletion."""
        return float(self.most * (self.mean @ self.mean))


def _scales(prober: Prober) -> list[_Scale]:
    return [_Scale.of(prober, label) for label in range(prober.federation.scenario.classes)]


def _slack(prober: Prober, scales: list[_Scale]) -> bool:
    """Whether the ledger alone decides on deletions of rows that are not the attacker's, after giants if need be."""
    name, hardest = prober.federation.attackers[0], max(scales, key=lambda scale: scale.weight)
    giant = Draft(Batch(GIANT * np.eye(1, prober.federation.scenario.d), np.array([0])))
    for _ in range(TURNS):
        if prober.send(hardest.deleting(hardest.most), name).rule == "ledger":
            return True
        if not (prober.send(giant, name).accepted and prober.send(giant.undo(), name).accepted):
            return False
    return False


def _leverage(prober: Prober, scale: _Scale) -> float | None:
    """Return ``g' A^-1 g`` by bisection; None where something else than the ledger refuses."""
    name = prober.federation.attackers[0]
    low, high = 0.0, scale.most
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        draft = scale.deleting(middle)
        receipt = prober.send(draft, name)
        if not receipt.accepted and receipt.rule != "ledger":
            return None
        if receipt.accepted:
            prober.send(draft.undo(), name)
        low, high = (middle, high) if receipt.accepted else (low, middle)
    return 1.0 / max(low, 1e-12)


def _leverages(prober: Prober, scales: list[_Scale]) -> Matrix | None:
    found = []
    for scale in scales:
        if (one := _leverage(prober, scale)) is None:
            return None
        found.append(one)
    return np.array(found)


def _oracle(prober: Prober) -> Follow:
    scales = _scales(prober)
    before = _leverages(prober, scales) if _slack(prober, scales) else None

    def follow(later: Prober) -> Guess:
        after = _leverages(later, scales) if before is not None else None
        if before is None or after is None:
            return named(later, int(later.rng.integers(later.federation.scenario.classes)))
        return named(later, int(np.argmax((after - before) / before)))

    return follow


ATTACKERS = (Attacker("error-oracle", "bisects on what the ledger can take; reads no head", _oracle, aim="label"),)
