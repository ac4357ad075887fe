"""An attacker that deletes rows that were never there, as many and as large as the server takes (Huang et al. 2025)."""

from __future__ import annotations

import numpy as np

from exhume.attack.strategies.burn import largest_of_each
from exhume.numerics import Rows
from exhume.protocol.message import Batch
from exhume.simulate.attackers._base import Attacker, Follow
from exhume.simulate.prober import Draft, Prober

__all__ = ["ATTACKERS"]


def _burn(prober: Prober) -> Follow:
    s = prober.federation.scenario
    start = prober.federation.head()

    def ask(rows: Rows, times: float) -> bool:
        batch = Batch(np.sqrt(times) * s.features[rows], (s.labels[rows] + 1) % s.classes)
        return prober.send(Draft(None, batch)).accepted

    largest_of_each(ask, s.held_out)
    prober.provoke(None if start is None else start.serial)
    return lambda later: None


ATTACKERS = (Attacker("burn", "deletes rows that were never there", _burn, aim="burn", quick=True),)
