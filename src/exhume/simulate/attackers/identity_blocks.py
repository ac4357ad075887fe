"""An attacker that adds multiples of the identity, as much as public bounds let in: every head is drawn to nothing."""

from __future__ import annotations

import numpy as np

from exhume.defence.bounds import Bounds
from exhume.protocol.message import Batch
from exhume.protocol.summary import Summary, Update
from exhume.simulate.attackers._base import Attacker
from exhume.simulate.attackers._filling import filling
from exhume.simulate.prober import Draft, Prober

__all__ = ["ATTACKERS"]


def _sent(prober: Prober, name: str, bounds: Bounds, rows: int) -> bool:
    """Send sums without a moment, or the longest rows where they must be shown."""
    s = prober.federation.scenario
    if not prober.federation.known.show_rows:
        weights = prober.rng.uniform(0.9, 1.1, s.d)  # no two blocks are the same, up to their size
        block = np.diag(rows * bounds.longest**2 * weights / weights.sum())
        return prober.send_update(Update.adding(Summary(block, np.zeros((s.d, s.classes)))), name).accepted
    directions = np.resize(prober.rng.permutation(s.d), rows)
    labels = prober.rng.integers(s.classes, size=rows)
    return prober.send(Draft(Batch(bounds.longest * np.eye(s.d)[directions], labels)), name).accepted


ATTACKERS = (
    Attacker("identity-blocks", "multiples of the identity, as much as bounds let in", filling(_sent), aim="burn"),
)
