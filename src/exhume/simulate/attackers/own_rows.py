"""The attacker's own rows, added batch by batch: those that the ledger has already, and those that it has not."""

from __future__ import annotations

import math

from exhume.simulate.attackers._base import Attacker
from exhume.simulate.attackers._ways import by_difference, by_rank_one
from exhume.simulate.prober import Harvest, Prober

__all__ = ["ATTACKERS"]


def _own(prober: Prober) -> Harvest:
    s = prober.federation.scenario
    return prober.run(prober.own_drafts(s.parts[s.attacker], 2 * math.ceil(s.d / s.classes)), "own-data")


def _held_out(prober: Prober) -> Harvest:
    s = prober.federation.scenario
    return prober.run(prober.own_drafts(s.held_out, 2 * math.ceil(s.d / s.classes)), "held-out")


ATTACKERS = (
    Attacker("own-data", "its own records once more, before and after", by_difference(_own)),
    Attacker("held-out", "its own records that were never sent, one head after", by_rank_one(_held_out), quick=True),
)
