"""Norm threshold: a block larger than honest blocks of as many rows is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from exhume.defence.admission._numbers import least_rows
from exhume.errors import InputError
from exhume.protocol import AdmissionRule, Summary, Update

__all__ = ["NormLimit", "size_of"]


def size_of(summary: Summary) -> float:
    """Return the Frobenius norm of gram and moment together."""
    return math.hypot(summary.gram_norm, float(np.linalg.norm(summary.moment)))


def _bin(summary: Summary) -> int:
    """Return the block's size class: the binary logarithm of the rows that it holds at least."""
    return round(math.log2(max(least_rows(summary), 1)))


class NormLimit(AdmissionRule):
    """Refuses blocks larger than the honest threshold of their number of rows.

    An update does not say how many rows it holds. Blocks are sorted by the rows that their algebra proves (the rank of
    the gram: exact up to d independent rows, d beyond), in classes of powers of two, both when the thresholds are
    calibrated and when they are applied. A client cannot buy a larger threshold by claiming rows.
    The norm of n rows grows at most as n: a class without honest examples takes the next smaller one's threshold times
    that, or the next larger one's.

    Parameters
    ----------
    thresholds
        Largest size of an accepted block per size class; `NormLimit.calibrated` makes them.
    """

    name = "norm-limit"
    about = "no block larger than honest ones of as many rows"
    reads: ClassVar[str] = "message"
    example: ClassVar[Mapping[str, Any]] = {"thresholds": {"0": 10.0}}
    former = ("norm",)

    def __init__(self, thresholds: Mapping[int, float]) -> None:
        if not thresholds or not all(math.isfinite(t) and t > 0 for t in thresholds.values()):
            raise InputError("thresholds", "at least one finite number above 0", dict(thresholds))
        self.thresholds = {int(k): float(t) for k, t in sorted(thresholds.items())}

    @classmethod
    def calibrated(cls, honest: Iterable[Summary], *, rate: float = 0.01, slack: float = 1.0) -> NormLimit:
        """Take thresholds from honest blocks.

        Parameters
        ----------
        honest
            Blocks of honest batches of every size that clients may send.
        rate
            Share of honest blocks that may be refused: each class takes its conformal quantile at ``1 - rate``, and its
            maximum where it has too few examples to promise it.
        slack
            Factor on every threshold; above 1 it trades detection for fewer refusals.
        """
        if not 0 <= rate < 1:
            raise InputError("rate", "from 0 to below 1", rate)
        if not slack > 0:
            raise InputError("slack", "above 0", slack)
        classes: dict[int, list[float]] = {}
        for summary in honest:
            classes.setdefault(_bin(summary), []).append(size_of(summary))
        found = {}
        for kind, sizes in classes.items():
            place = min(math.ceil((len(sizes) + 1) * (1 - rate)), len(sizes))
            found[kind] = slack * sorted(sizes)[place - 1]
        return cls(found)

    def threshold(self, kind: int) -> float:
        """Return the threshold of a size class."""
        if kind in self.thresholds:
            return self.thresholds[kind]
        smaller = [k for k in self.thresholds if k < kind]
        if smaller:
            return self.thresholds[max(smaller)] * 2.0 ** (kind - max(smaller))
        return self.thresholds[min(self.thresholds)]

    def refuse(self, update: Update, client: str) -> str | None:
        """Test both sides."""
        for side, summary in (("add", update.add), ("delete", update.delete)):
            if summary.is_zero:
                continue
            kind = _bin(summary)
            size, limit = size_of(summary), self.threshold(kind)
            if size > limit:
                return f"{self.name}: {side}: size {size:.3g} is above {limit:.3g}, the limit for about {2**kind} rows"
        return None

    def __repr__(self) -> str:
        return f"NormLimit(classes={list(self.thresholds)})"


RULES = (NormLimit,)
