"""Filling what public bounds let a client have, in every name, with messages of the attacker's choice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from exhume.defence.bounds import Bounds
from exhume.simulate.attackers._base import Follow, Learn
from exhume.simulate.prober import Draft, Prober
from exhume.simulate.rules import bounds_of

__all__ = ["MESSAGES", "filling"]

MESSAGES = 40
"""Messages in one name at the most."""

SMALLER = 4
"""How many times fewer rows a message has after one that was refused."""

Sent = Callable[[Prober, str, Bounds, int], bool]
"""Sends a message in one name that counts as so many rows; returns whether it was taken."""


def filling(sent: Sent) -> Learn:
    """Send such messages in every name, of fewer rows after each refusal, until there is no room for a row."""

    def learn(prober: Prober) -> Follow:
        fed = prober.federation
        own = np.array_split(fed.scenario.parts[fed.scenario.attacker], len(fed.attackers))
        for name, rows in zip(fed.attackers, own, strict=True):
            # What the attacker has standing counts against its bound: it takes that back first.
            if len(rows):
                prober.send(Draft(None, fed.batch(rows)), name)
            _fill(prober, name, sent)
        return lambda later: None

    return learn


def _fill(prober: Prober, name: str, sent: Sent) -> None:
    bounds = bounds_of(prober.federation.scenario)
    rows = min(bounds.message_rows, bounds.client_rows)
    for _ in range(MESSAGES):
        if rows < 1:
            return
        if not sent(prober, name, bounds, rows):
            rows //= SMALLER
