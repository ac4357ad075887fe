"""An attacker that reads no head: it bisects on what the ledger can still take, before a deletion and after it."""

from __future__ import annotations

import numpy as np

from exhume.numerics import Matrix
from exhume.protocol.message import Batch
from exhume.simulate.attackers._base import Attacker, Follow, Guess, named
from exhume.simulate.prober import Draft, Prober

__all__ = ["ATTACKERS"]

STEPS = 40
"""Bisections of one threshold: the change that one record makes is small."""


def _leverages(prober: Prober) -> Matrix | None:
    """Return ``g' A^-1 g`` of each class's mean g: a deletion of ``t g g'`` fits exactly while ``t g' A^-1 g < 1``."""
    s = prober.federation.scenario
    found = []
    for label in range(s.classes):
        mean = s.features[s.known][s.labels[s.known] == label].mean(axis=0)
        low, high = 0.0, 4.0 * len(s.features)
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            draft = Draft(None, Batch(np.sqrt(middle) * mean[None, :], np.array([label])))
            receipt = prober.send(draft)
            if not receipt.accepted and receipt.rule != "ledger":
                return None
            if receipt.accepted:
                prober.send(draft.undo())
            low, high = (middle, high) if receipt.accepted else (low, middle)
        found.append(1.0 / max(low, 1e-12))
    return np.array(found)


def _oracle(prober: Prober) -> Follow:
    before = _leverages(prober)

    def follow(later: Prober) -> Guess:
        after = _leverages(later) if before is not None else None
        if before is None or after is None:
            return named(later, int(later.rng.integers(later.federation.scenario.classes)))
        return named(later, int(np.argmax((after - before) / before)))

    return follow


ATTACKERS = (Attacker("error-oracle", "bisects on what the ledger can take; reads no head", _oracle, aim="label"),)
