"""Recovery of what was deleted: every estimator in one place.

`difference` is the paper's: it subtracts two identified states, so the error of a whole state lands on a small block.
`rank_one` needs the state before the deletion and one head after it; `rank_one_averaged` more heads, for coarser
ones. `low_rank` is for several records in one broadcast, `sequence` for many deletions one after another,
`partial_sample` for states that were identified in part, `zoomed_difference` for moments found by centring the head.
"""

from __future__ import annotations

from exhume.attack.averaging import average_head, rank_one_averaged
from exhume.attack.block import Block, Sample
from exhume.attack.identify import State
from exhume.attack.low_rank import LowRank, class_counts, low_rank
from exhume.attack.partial import PartialSample, partial_sample
from exhume.attack.rank_one import RankOne, rank_one
from exhume.attack.sequence import Followed, sequence
from exhume.attack.zoom import zoomed_difference
from exhume.errors import InputError

__all__ = [
    "Block",
    "Followed",
    "LowRank",
    "PartialSample",
    "RankOne",
    "Sample",
    "average_head",
    "class_counts",
    "difference",
    "low_rank",
    "partial_sample",
    "rank_one",
    "rank_one_averaged",
    "sequence",
    "zoomed_difference",
]


def difference(before: State, after: State) -> Block:
    """Return the deleted block ``A_pre - A_post``, ``A_pre W_pre - A_post W_post`` (Proposition 2)."""
    if (before.d, before.c) != (after.d, after.c):
        raise InputError("after", f"of d = {before.d}, c = {before.c}", f"d = {after.d}, c = {after.c}")
    return Block(before.A - after.A, before.G - after.G)
