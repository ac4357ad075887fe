"""An attacker that was told what was deleted, and only wants to put it back."""

from __future__ import annotations

from exhume.simulate.attackers._base import Attacker, Follow, Guess
from exhume.simulate.prober import Prober

__all__ = ["ATTACKERS"]


def _replay(prober: Prober) -> Follow:
    return lambda later: None if later.told is None else Guess(later.told)


ATTACKERS = (Attacker("replay", "told the deleted block, puts it back", _replay, aim="replay", quick=True),)
