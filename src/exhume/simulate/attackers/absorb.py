"""An attacker that adds giants and takes them out again, so that float64 swallows everybody's rows with them."""

from __future__ import annotations

from exhume.protocol.message import Batch
from exhume.simulate.attackers._base import Attacker, Follow
from exhume.simulate.prober import Draft, Prober

__all__ = ["ATTACKERS"]

SIZES = (1e10, 1e8, 1e6, 1e4)
"""Scales of the giants, the largest that the server takes counts."""


def _absorb(prober: Prober) -> Follow:
    s = prober.federation.scenario
    name = prober.federation.attackers[0]
    for size in SIZES:
        giants = Draft(Batch(size * s.features[s.held_out], s.labels[s.held_out]))
        if prober.send(giants, name).accepted:
            prober.send(giants.undo(), name)
            break
    return lambda later: None


ATTACKERS = (Attacker("absorb", "giants that come and go swallow everybody's rows", _absorb, aim="burn"),)
