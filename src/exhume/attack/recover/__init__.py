"""Recoveries by name: from what was known before a deletion and seen after it to what was deleted.

All have one shape, ``recover.x(before, after, *, ...) -> Recovered``. `difference` is the paper's: it subtracts two
identified states. `rank_one` needs the state before and one head after; `averaged` more heads, for coarser ones.
`low_rank` is for several records in one broadcast, `unmixed` tells those of one class apart, `sequence` is for many
deletions one after another, `partial` for states that were identified in part, `zoomed` for moments found by centring
the head, `passive` for those who send nothing, `informed` for noise above the record. `membership` says who was in it.

Adding one is adding a module here that defines the tuple `RECOVERIES`; other packages add theirs through the
entry-point group ``exhume.recoveries``.
"""

from __future__ import annotations

from exhume.attack.block import Block, Sample
from exhume.attack.recover.averaged import average_head, averaged
from exhume.attack.recover.base import KINDS, Recovered, Recovery
from exhume.attack.recover.difference import difference
from exhume.attack.recover.informed import informed
from exhume.attack.recover.low_rank import class_counts, low_rank
from exhume.attack.recover.membership import Membership, membership, ranking
from exhume.attack.recover.partial import partial
from exhume.attack.recover.passive import passive
from exhume.attack.recover.rank_one import rank_one
from exhume.attack.recover.sequence import sequence
from exhume.attack.recover.unmixed import unmix, unmixed
from exhume.attack.recover.zoomed import zoomed
from exhume.registry import Registry

__all__ = [
    "KINDS",
    "REGISTRY",
    "Block",
    "Membership",
    "Recovered",
    "Recovery",
    "Sample",
    "average_head",
    "averaged",
    "class_counts",
    "difference",
    "informed",
    "low_rank",
    "membership",
    "partial",
    "passive",
    "rank_one",
    "ranking",
    "sequence",
    "unmix",
    "unmixed",
    "zoomed",
]

REGISTRY = Registry("recovery", __name__, "RECOVERIES", "exhume.recoveries", Recovery)
"""Every known recovery, by name."""
