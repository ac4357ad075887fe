"""What a cap cuts off records, and what of it must come back when they go.

Heads are shown a share of a record whose mu is above the cap. The same share must be taken out when it goes, in
whatever company and epoch: a difference would stay in everybody's heads, and could be made again and again. So the
share of every standing record that was cut is remembered by its owner and a digest of the record: another client's
equal record has a share of its own. What is done for a message is the
same whether or not anybody's records were cut, and however many.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from exhume.defence.admission._numbers import content
from exhume.defence.release._epoch import EpochMeasure, NoisedEvent
from exhume.numerics import Matrix
from exhume.protocol.message import Batch
from exhume.protocol.summary import Summary

__all__ = ["CutStep", "Records", "record_sizes"]

Shares = dict[bytes, tuple[float, ...]]
"""Shares of the standing records that were cut, by digest: the last one in is the first one out."""


@dataclass(eq=False)
class CutStep:
    """What one step does to the shares: they are seen through it, and it is taken into them once the step counts."""

    shares: Shares
    changed: Shares = field(default_factory=dict)
    owner: bytes = b""
    """Whose records come or go."""

    def facing(self, client: str) -> CutStep:
        """Return the same step, as it is for one client's records."""
        return replace(self, owner=hashlib.sha256(client.encode("utf-8", "surrogatepass")).digest()[:16])

    def _of(self, key: bytes) -> tuple[float, ...]:
        return self.changed.get(key, self.shares.get(key, ()))

    def noted(self, key: bytes, share: float) -> None:
        """Remember one record more."""
        key = self.owner + key
        self.changed[key] = (*self._of(key), share)

    def taken(self, key: bytes) -> float:
        """Return the share of a record that goes, and forget it; 1 for one that was not cut."""
        for known in (self.owner + key, key):  # states that were saved earlier know no owners
            if found := self._of(known):
                self.changed[known] = found[:-1]
                return found[-1]
        return 1.0

    def settle(self) -> None:
        """Take the step into the shares, in place."""
        for key, left in self.changed.items():
            if left:
                self.shares[key] = left
            else:
                self.shares.pop(key, None)
        self.changed = {}


@dataclass(frozen=True, eq=False)
class Records:
    """A block in the measure's coordinates, and the records in it that are known one by one."""

    event: NoisedEvent
    """All of it."""
    white: Matrix
    """Its records, d x records."""
    sides: Matrix
    """records x c: the moment of a record is the product of both."""
    keys: tuple[Callable[[], bytes], ...]
    """Digests, made when asked for."""
    shown: bool = False
    """Whether the rows were: else there is at most one record, which is the block."""

    @classmethod
    def of(cls, measure: EpochMeasure, block: Summary, batch: Batch | None) -> Records:
        """Return a block, whose rows are known or not; one of rank 1 is a record without."""
        if batch is not None and len(batch.features):
            white, sides = measure.records(batch)
            rows = zip(batch.features, batch.labels, strict=True)
            keys = tuple(partial(_key, feature, int(label)) for feature, label in rows)
            few = 2 * white.shape[1] <= block.d
            event = NoisedEvent(white @ sides, rows=white) if few else measure.event(block)
            return cls(event, white, sides, keys, shown=True)
        event = measure.event(block)
        if not event.single or event.rows is None:
            return cls(event, np.zeros((block.d, 0)), np.zeros((0, block.c)), ())
        w = event.rows[:, 0]
        sides = (w @ event.moment / max(float(w @ w), 1e-300))[None, :]
        return cls(event, event.rows, sides, (partial(content, block),))

    @property
    def sizes(self) -> tuple[Matrix, Matrix]:
        """The sizes of the grams and of the moments of its records, each alone."""
        return record_sizes(self.white, self.sides)

    def shares(self, cuts: CutStep, cap: float, mu: Matrix, *, comes: bool) -> Matrix:
        """Return what heads are shown of each record; what is remembered of them follows.

        Parameters
        ----------
        cuts
            The shares so far.
        cap
            Largest mu of a record.
        mu
            That of each record alone, uncut.
        comes
            Whether the block comes or goes.
        """
        within = np.minimum(1.0, cap / np.maximum(mu, 1e-300))
        for i, key in enumerate(self.keys):
            if not comes:
                within[i] = cuts.taken(key())
            elif within[i] < 1.0:
                cuts.noted(key(), float(within[i]))
        return within

    def cut_off(self, shares: Matrix) -> list[NoisedEvent]:
        """Return what heads are not shown of the block."""
        return [replace(self._record(i), share=1.0 - float(share)) for i, share in enumerate(shares) if share < 1.0]

    def sizes_together(self, shares: Matrix) -> tuple[float, float]:
        """Return the sizes of the gram and of the moment of all that heads are shown, as one block."""
        if not (shares < 1.0).any():
            return self.event.sizes
        off = 1.0 - shares
        moment = self.event.moment - self.white @ (off[:, None] * self.sides)
        if self.event.rows is self.white:
            root = self.white * np.sqrt(shares)
            gram = root.T @ root
        else:
            whole = self.event.dense if self.event.rows is None else self.event.rows @ self.event.rows.T
            gram = (0.0 if whole is None else whole) - (self.white * off) @ self.white.T
        return float(np.linalg.norm(gram)), float(np.linalg.norm(moment))

    def _record(self, i: int) -> NoisedEvent:
        """Return one record as an event of its own."""
        return NoisedEvent(np.outer(self.white[:, i], self.sides[i]), rows=np.asfortranarray(self.white[:, [i]]))


def record_sizes(white: Matrix, sides: Matrix) -> tuple[Matrix, Matrix]:
    """Return the sizes of the gram ``w w'`` and the moment ``w r'`` of each record: ``|w|^2`` and ``|w| |r|``."""
    leverage = (white**2).sum(axis=0)
    return leverage, np.sqrt(leverage) * np.linalg.norm(sides, axis=1)


def _key(feature: Matrix, label: int) -> bytes:
    return next(iter(Batch(feature[None, :], np.array([label])).digests()))
