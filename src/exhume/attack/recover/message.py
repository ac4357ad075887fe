"""The server as the adversary, who sees single messages: what the sums of one client's batch say of its rows.

A message of one row is the row. Of b rows the gram gives their span, the class counts, and rows that are alone in
their class; where one class alone has several, `unmix` tells those apart too. Minimum rows buy no more than that, and
secure aggregation hides the message only as far as the sum of all clients' rows is a larger batch (Zhou et al.).
"""

from __future__ import annotations

import numpy as np

from exhume.attack.block import Block, Sample
from exhume.attack.recover.low_rank import class_counts
from exhume.attack.recover.unmixed import unmix
from exhume.numerics import RANK_TOLERANCE, Rows
from exhume.protocol.summary import Summary

__all__ = ["read_message"]


def read_message(sums: Summary, *, nonnegative: bool = False) -> tuple[Rows, tuple[Sample, ...]]:
    """Return records per class of one side of a message, and those rows that its sums determine.

    Parameters
    ----------
    sums
        What was added, or what was deleted.
    nonnegative
        Whether features are known to be non-negative; more than two rows of a class need it.
    """
    block = Block(sums.gram, sums.moment)
    values = np.linalg.eigvalsh(sums.gram)
    rank = int(np.count_nonzero(values > RANK_TOLERANCE * max(float(values[-1]), 0.0)))
    if rank == 0:
        return np.zeros(sums.moment.shape[1], dtype=np.intp), ()
    counts = np.rint(class_counts(block, rank)).astype(np.intp)
    alone = [Sample(int(k), sums.moment[:, k].copy(), 1.0) for k in np.flatnonzero(counts == 1)]
    several = np.flatnonzero(counts > 1)
    if len(several) == 1 and counts.sum() == rank and (counts[several[0]] == 2 or nonnegative):
        k = int(several[0])
        rest = sums.gram - sum(np.outer(s.feature, s.feature) for s in alone)
        rows = unmix(rest, sums.moment[:, k], int(counts[k]))
        alone += [Sample(k, row.copy(), 1.0 - rows.negative) for row in rows.features if rows.known]
    return counts, tuple(alone)
