"""Lay a ballast, and take it back: while it stands the state is well conditioned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from exhume.attack.probes.ballast import BallastProbe
from exhume.attack.session import Attack
from exhume.protocol.summary import Update

__all__ = ["ballasted"]


@contextmanager
def ballasted(attack: Attack, probe: BallastProbe) -> Iterator[Attack]:
    """Let a probe's ballast stand while the block runs; it is taken back however the block ends.

    States that were identified in the block are of the ledger with the ballast in it: use them inside.
    """
    attack.submit(Update.adding(probe.ballast))
    try:
        yield attack
    finally:
        attack.submit(Update.deleting(probe.ballast))
