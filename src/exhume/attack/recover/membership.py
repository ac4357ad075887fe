"""Who was in a deletion: a candidate record belongs to it exactly when it lies in the range of the deleted gram.

The gram of n < d records has rank n, and its range is the span of their features: every member lies in it, and a
record that was not deleted lies in it with probability zero. Estimated grams have an error; the share of a candidate
outside the range is then measured softly, at the size of that error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from exhume.attack._line import line
from exhume.attack.block import Block
from exhume.errors import InputError
from exhume.numerics import Matrix, symmetric

__all__ = ["Membership", "membership", "ranking"]

_ROUNDOFF = 1e-14  # an error of this share of the gram is left even by exact heads


@dataclass(frozen=True, repr=False)
class Membership:
    """How far candidates lie outside of what was deleted."""

    outside: Matrix
    """Share of each candidate's squared length outside the range: about zero for members."""
    rank: int
    """Records, or independent ones among them, that stand out of the error."""
    error: float
    """The error of the gram that was reckoned with, in its own units."""

    def __repr__(self) -> str:
        return line(self, candidates=len(self.outside), rank=self.rank, error=self.error)


def membership(block: Block, candidates: Matrix, *, error: float | None = None) -> Membership:
    """Measure how far candidate records lie outside the range of a deleted gram.

    Parameters
    ----------
    block
        What was recovered of a deletion of fewer than d records.
    candidates
        One feature vector a row.
    error
        The error of the gram, if known. Else its most negative eigenvalue tells: the true gram has none.
    """
    d = len(block.gram)
    if candidates.ndim != 2 or candidates.shape[1] != d:
        raise InputError("candidates", f"rows of {d} features", f"shape {candidates.shape}")
    values, vectors = np.linalg.eigh(symmetric(block.gram))
    size = max(-float(values[0]), _ROUNDOFF * float(values[-1])) if error is None else error
    seen = (candidates @ vectors) ** 2
    outside = seen @ (size / (np.maximum(values, 0.0) + size)) / np.maximum(seen.sum(axis=1), 1e-300)
    return Membership(outside, int(np.count_nonzero(values > size)), size)


def ranking(members: Matrix, others: Matrix) -> float:
    """Return the chance that a member lies less far outside than another record does (the area under the ROC)."""
    if not len(members) or not len(others):
        raise InputError("members, others", "at least one each", (len(members), len(others)))
    ranks = rankdata(np.concatenate([members, others]))
    wins = ranks[len(members) :].sum() - len(others) * (len(others) + 1) / 2
    return float(wins / (len(members) * len(others)))
