"""An attacker that adds multiples of the identity, as much as public bounds let in: every head is drawn to nothing."""

from __future__ import annotations

import numpy as np

from exhume.defence.bounds import Bounds
from exhume.protocol.message import Batch
from exhume.protocol.summary import Summary, Update
from exhume.simulate.attackers._base import Attacker, Follow
from exhume.simulate.prober import Draft, Prober
from exhume.simulate.rules import bounds_of

__all__ = ["ATTACKERS"]

BLOCKS = 40
"""Messages in one name at the most."""

SMALLER = 4
"""How many times fewer rows a message has after one that was refused."""


def _identity_blocks(prober: Prober) -> Follow:
    fed = prober.federation
    own = np.array_split(fed.scenario.parts[fed.scenario.attacker], len(fed.attackers))
    for name, rows in zip(fed.attackers, own, strict=True):
        # What the attacker has standing counts against its bound: it takes that back first.
        if len(rows):
            prober.send(Draft(None, fed.batch(rows)), name)
        _fill(prober, name)
    return lambda later: None


def _fill(prober: Prober, name: str) -> None:
    """Send blocks in one name, of fewer rows after each refusal, until there is no room for a row."""
    bounds = bounds_of(prober.federation.scenario)
    rows = min(bounds.message_rows, bounds.client_rows)
    for _ in range(BLOCKS):
        if rows < 1:
            return
        if not _sent(prober, name, bounds, rows):
            rows //= SMALLER


def _sent(prober: Prober, name: str, bounds: Bounds, rows: int) -> bool:
    """Send a block that counts as so many rows: sums without a moment, or the longest rows where they must be shown."""
    s = prober.federation.scenario
    if not prober.federation.known.show_rows:
        weights = prober.rng.uniform(0.9, 1.1, s.d)  # no two blocks are the same, up to their size
        block = np.diag(rows * bounds.longest**2 * weights / weights.sum())
        return prober.send_update(Update.adding(Summary(block, np.zeros((s.d, s.classes)))), name).accepted
    directions = np.resize(prober.rng.permutation(s.d), rows)
    labels = prober.rng.integers(s.classes, size=rows)
    return prober.send(Draft(Batch(bounds.longest * np.eye(s.d)[directions], labels)), name).accepted


ATTACKERS = (
    Attacker("identity-blocks", "multiples of the identity, as much as bounds let in", _identity_blocks, aim="burn"),
)
