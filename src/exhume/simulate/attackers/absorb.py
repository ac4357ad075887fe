"""An attacker that adds giants and takes them out again, so that float64 swallows everybody's rows with them."""

from __future__ import annotations

import numpy as np

from exhume.numerics import Matrix
from exhume.protocol.message import Batch
from exhume.simulate.attackers._base import Attacker, Follow, room_of
from exhume.simulate.prober import Draft, Prober
from exhume.simulate.rules import bounds_of

__all__ = ["ATTACKERS"]

ROWS = 200
"""Giants in a message."""

SIZES = tuple(10.0**power for power in range(10, 1, -1))
"""Scales of the giants, from the largest down."""

BALLAST = (1e-7, 1e-6, 1e-5, 1e-4)
"""Sizes of what stays in the giants' place, relative to them, where rounding has left no head without them."""

WITHIN = 0.999
"""How long the longest rows are that public bounds let in, relative to the bound."""

ROUNDS = 8
"""How often such rows come and go."""

HARMED = 0.1
"""The attacker stops once the public head has so much less of its own rows right."""


def _absorb(prober: Prober) -> Follow:
    s = prober.federation.scenario
    bounds, before = bounds_of(s), _right(prober)
    giants = [size * _dense(prober, ROWS) for size in SIZES]
    room = room_of(prober, bounds)
    within = [_dense(prober, room) for _ in range(ROUNDS if room else 0)]
    giants += [WITHIN * bounds.longest * rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in within]
    for rows in giants:
        _comes_and_goes(prober, rows)
        if _right(prober) <= before - HARMED:
            break
    return lambda later: None


def _dense(prober: Prober, rows: int) -> Matrix:
    """Return made-up rows without a zero: each moves every number of the totals, so that each is rounded."""
    made: Matrix = np.abs(prober.rng.standard_normal((rows, prober.federation.scenario.d))) + 0.5
    return made


def _comes_and_goes(prober: Prober, features: Matrix) -> None:
    """Add rows and take them out again; where nothing is left without them, something smaller takes their place."""
    name, classes = prober.federation.attackers[0], prober.federation.scenario.classes
    labels = prober.rng.integers(classes, size=len(features))
    giants = Draft(Batch(features, labels))
    if not prober.send(giants, name).accepted or prober.send(giants.undo(), name).accepted:
        return
    d = features.shape[1]
    for share in BALLAST:
        ballast = Batch(share * features.max() * np.eye(d), np.arange(d) % classes)
        if prober.send(Draft(ballast, giants.add), name).accepted:
            return


def _right(prober: Prober) -> float:
    """Return how many of the attacker's own rows the public head has right, which is all that it sees of the harm."""
    s = prober.federation.scenario
    return prober.head().accuracy(s.features[s.known], s.labels[s.known])


ATTACKERS = (Attacker("absorb", "giants that come and go swallow everybody's rows", _absorb, aim="burn"),)
