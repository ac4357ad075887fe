"""A head of low rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from exhume.defence.release._base import Rule, at_least
from exhume.protocol.head import Head
from exhume.protocol.rules import Occasion

__all__ = ["LowRank"]


class LowRank(Rule):
    """Releases the best approximation of the head of a given rank.

    Parameters
    ----------
    rank
        How many singular directions are kept.
    """

    name = "low-rank"
    about = "the best approximation of the head of a given rank"
    example: ClassVar[Mapping[str, Any]] = {"rank": 1}
    stage = "shape"

    def __init__(self, rank: int) -> None:
        self.rank = at_least("rank", rank, 1)

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"rank": self.rank}

    def release(self, head: Head, occasion: Occasion) -> Head:
        """Return the truncated head."""
        left, values, right = np.linalg.svd(head.weights, full_matrices=False)
        kept = slice(self.rank)
        return replace(head, weights=(left[:, kept] * values[kept]) @ right[kept])


RULES = (LowRank,)
