"""An attacker that sends messages for their own sake: where each brings noise, everybody's heads get worse."""

from __future__ import annotations

from exhume.simulate.attackers._base import Attacker, Follow
from exhume.simulate.prober import Prober

__all__ = ["ATTACKERS"]

MESSAGES = 5000
"""Messages of one row that comes and goes: several epochs of the hardened server."""


def _spend(prober: Prober) -> Follow:
    row = prober.adding(prober.federation.scenario.held_out[:1])
    name = prober.federation.attackers[0]
    for _ in range(MESSAGES // 2):
        if prober.send(row, name).accepted:
            prober.send(row.undo(), name)
    return lambda later: None


ATTACKERS = (Attacker("spend", "sends a row and takes it back thousands of times", _spend, aim="burn"),)
