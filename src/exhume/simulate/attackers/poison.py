"""An attacker that adds as many wrong rows as bounds let in: each class turned round, under its own label."""

from __future__ import annotations

import numpy as np

from exhume.defence.bounds import Bounds
from exhume.numerics import Matrix, Rows
from exhume.protocol.message import Batch
from exhume.simulate.attackers._base import Attacker
from exhume.simulate.attackers._filling import filling
from exhume.simulate.prober import Draft, Prober

__all__ = ["ATTACKERS", "turned_round"]

_WITHIN = 0.999
"""Length of its rows, in those of the longest allowed."""


def _sent(prober: Prober, name: str, bounds: Bounds, rows: int) -> bool:
    s = prober.federation.scenario
    classes, away = turned_round(s.features[s.known], s.labels[s.known])
    chosen = prober.rng.permutation(np.resize(np.arange(len(classes)), rows))
    lengths = _WITHIN * bounds.longest * prober.rng.uniform(0.99, 1.0, (rows, 1))  # no two rows are the same
    return prober.send(Draft(Batch(lengths * away[chosen], classes[chosen])), name).accepted


def turned_round(features: Matrix, labels: Rows) -> tuple[Rows, Matrix]:
    """Return the classes of some rows, and for each a unit vector away from what it differs by from all of them."""
    classes = np.unique(labels)
    away = np.array([features.mean(axis=0) - features[labels == k].mean(axis=0) for k in classes])
    return classes, away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-300)


ATTACKERS = (
    Attacker("poison", "as many wrong rows as bounds let in: classes turned round", filling(_sent), aim="burn"),
)
