"""Attackers that know the defence, by name. Adding one is adding a module here that defines the tuple `ATTACKERS`.

An attacker learns what it can before a deletion, then says what was deleted. What it knows of hidden values is nothing,
but for those that are told some: the upper end of what any probing could give them.
"""

from __future__ import annotations

from exhume.registry import Registry
from exhume.simulate.attackers._base import Attacker, Follow, Guess, Learn, best_estimate, guess_of_A, public_head
from exhume.simulate.attackers._ways import Probing, by_difference, by_rank_one

__all__ = [
    "REGISTRY",
    "Attacker",
    "Follow",
    "Guess",
    "Learn",
    "Probing",
    "best_estimate",
    "by_difference",
    "by_rank_one",
    "guess_of_A",
    "public_head",
]

REGISTRY = Registry("attack", __name__, "ATTACKERS", "exhume.attacks", Attacker)
"""Every known attacker, by name."""
