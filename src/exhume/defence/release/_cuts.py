"""What a cap cuts off records, and what of it must come back when they go.

Heads are shown a share of a record whose mu is above the cap. The same share must be taken out when it goes, in
whatever company and epoch: a difference would stay in everybody's heads, and could be made again and again. So the
share of every standing record that was cut is remembered by a digest of the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from exhume.defence.admission._numbers import content
from exhume.defence.release._epoch import EpochMeasure, NoisedEvent
from exhume.numerics import Matrix
from exhume.protocol.message import Batch
from exhume.protocol.summary import Summary

__all__ = ["Cuts", "cut_off"]


@dataclass(frozen=True)
class Cuts:
    """Shares of the standing records that were cut, by digest: the last one in is the first one out. Immutable."""

    shares: Mapping[bytes, tuple[float, ...]] = field(default_factory=dict)

    def noted(self, key: bytes, share: float) -> Cuts:
        """Return it with one more record."""
        return Cuts({**self.shares, key: (*self.shares.get(key, ()), share)})

    def taken(self, key: bytes) -> tuple[float, Cuts]:
        """Return the share of a record that goes, 1 for one that was not cut, and what is left."""
        found = self.shares.get(key, ())
        if not found:
            return 1.0, self
        left = {other: kept for other, kept in self.shares.items() if other != key}
        return found[-1], Cuts({**left, key: found[:-1]} if found[:-1] else left)


Measured = Callable[[Matrix, Matrix], Matrix]
"""From the sizes of grams and of moments to mu."""


def cut_off(
    cuts: Cuts, cap: float, mu: Measured, measure: EpochMeasure, side: tuple[Summary, Batch | None], *, comes: bool
) -> tuple[list[NoisedEvent], Cuts]:
    """Return what heads are not shown of a block, and the shares remembered after it.

    Parameters
    ----------
    cuts
        The shares before it.
    cap
        Largest mu of a record.
    mu
        From sizes of grams and of moments to mu.
    measure
        The epoch's.
    side
        The block, with its rows where records are known by rows; else it counts as one record if its gram is of rank 1.
    comes
        Whether it comes or goes.
    """
    if not comes and not cuts.shares:
        return [], cuts
    records = _Records.of(measure, *side)
    shares = np.minimum(1.0, cap / np.maximum(mu(*records.sizes), 1e-300)) if comes else np.ones(len(records.keys))
    off: list[NoisedEvent] = []
    for i, key in enumerate(records.keys):
        if not comes:
            shares[i], cuts = cuts.taken(key())
        elif shares[i] < 1.0:
            cuts = cuts.noted(key(), float(shares[i]))
        if shares[i] < 1.0:
            off.append(replace(records.event(i), share=float(1.0 - shares[i])))
    return off, cuts


@dataclass(frozen=True, eq=False)
class _Records:
    """The records of a block: rows of the measure's coordinates, moments' sides, and digests, made when asked for."""

    white: Matrix
    """d x records."""
    sides: Matrix
    """records x c: the moment of a record is the product of both."""
    keys: tuple[Callable[[], bytes], ...]

    @classmethod
    def of(cls, measure: EpochMeasure, block: Summary, batch: Batch | None) -> _Records:
        if batch is not None:
            sides = np.eye(block.c)[batch.labels] - batch.features @ measure.head
            rows = zip(batch.features, batch.labels, strict=True)
            keys = tuple(partial(_key, feature, int(label)) for feature, label in rows)
            return cls(measure.white(batch.features), sides, keys)
        event = measure.event(block)
        if not event.single or event.rows is None:
            return cls(np.zeros((block.d, 0)), np.zeros((0, block.c)), ())
        w = event.rows[:, 0]
        return cls(event.rows, (w @ event.moment / max(float(w @ w), 1e-300))[None, :], (partial(content, block),))

    @property
    def sizes(self) -> tuple[Matrix, Matrix]:
        """The sizes of grams and of moments."""
        leverage = (self.white**2).sum(axis=0)
        return leverage, np.sqrt(leverage) * np.linalg.norm(self.sides, axis=1)

    def event(self, i: int) -> NoisedEvent:
        """Return one record as an event of its own."""
        return NoisedEvent(np.outer(self.white[:, i], self.sides[i]), rows=np.asfortranarray(self.white[:, [i]]))


def _key(feature: Matrix, label: int) -> bytes:
    return next(iter(Batch(feature[None, :], np.array([label])).digests()))
