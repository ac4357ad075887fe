"""Recovery of what was deleted: every estimator in one place.

`difference` is the paper's: it subtracts two identified states, so the error of a whole state lands on a small block.
`rank_one` needs the state before the deletion and one head after it.
"""

from __future__ import annotations

from exhume.attack.block import Block, Sample
from exhume.attack.identify import State
from exhume.attack.rank_one import RankOne, rank_one
from exhume.errors import InputError

__all__ = ["Block", "RankOne", "Sample", "difference", "rank_one"]


def difference(before: State, after: State) -> Block:
    """Return the deleted block ``A_pre - A_post``, ``A_pre W_pre - A_post W_post`` (Proposition 2)."""
    if (before.d, before.c) != (after.d, after.c):
        raise InputError("after", f"of d = {before.d}, c = {before.c}", f"d = {after.d}, c = {after.c}")
    return Block(before.A - after.A, before.G - after.G)
