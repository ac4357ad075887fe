"""What a cap cuts off records, and what of it must come back when they go.

Heads are shown a share of a record whose mu is above the cap. The same share must be taken out when it goes, in
whatever company and epoch: a difference would stay in everybody's heads, and could be made again and again. So the
share of every standing record that was cut is remembered by its owner and a digest of the record: another client's
equal record has a share of its own. A block of sums is cut as a whole, by what any record in it can weigh at most.
What is done for a message is the same whether or not anybody's records were cut, and however many.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from exhume.defence.admission._numbers import content
from exhume.defence.release._epoch import EpochMeasure, NoisedEvent
from exhume.defence.release._figures import record_sizes
from exhume.numerics import Matrix
from exhume.protocol.message import Batch
from exhume.protocol.summary import Summary

__all__ = ["CutStep", "Records"]

_ONE_HOT = 1e-6
"""How far from one-hot a label that was solved for may be. What fails it has the figure of sums, which is larger."""

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
    """The records of a block in the measure's coordinates; of sums of several, what is known of all of them."""

    white: Matrix
    """Its records, d x records; none where it is of sums of several."""
    sides: Matrix
    """records x c: the moment of a record is the product of both."""
    keys: tuple[Callable[[], bytes], ...]
    """Digests of the records, or of the block where these are not known. They are made when asked for."""
    shown: bool = False
    """Whether the rows were: else there is at most one record, which is the block."""
    sums: NoisedEvent | None = None
    """The block, where its records are not known."""
    trace: float = 0.0
    """That of the block's gram, where they are not."""

    @classmethod
    def of(cls, measure: EpochMeasure, block: Summary, batch: Batch | None) -> Records:
        """Return a block, whose rows are known or not; sums of one record are one without."""
        if batch is not None and len(batch.features):
            rows = zip(batch.features, batch.labels, strict=True)
            keys = tuple(partial(_key, feature, int(label)) for feature, label in rows)
            return cls(*measure.records(batch), keys, shown=True)
        event, key = measure.event(block), partial(content, block)
        side = _side(event, measure)
        if event.rows is None or side is None:
            nothing = np.zeros((block.d, 0)), np.zeros((0, block.c))
            return cls(*nothing, (key,), sums=event, trace=float(np.trace(block.gram)))
        return cls(event.rows, side[None, :], (key,))

    @property
    def sizes(self) -> tuple[Matrix, Matrix]:
        """The sizes of the grams and of the moments of its records, each alone."""
        return record_sizes(self.white, self.sides)

    def shares(self, cuts: CutStep, cap: float, mu: Matrix, *, comes: bool) -> Matrix:
        """Return what heads are shown of each record, or of the block; what is remembered of them follows.

        Parameters
        ----------
        cuts
            The shares so far.
        cap
            Largest mu of a record.
        mu
            That of each record alone, uncut; where they are not known, one that bounds them all.
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

    def event(self, shares: Matrix) -> NoisedEvent:
        """Return what heads are shown of the block.

        It is made of the records as they count, each alone: what comes in one company and goes in another leaves
        nothing behind but roundoff of its own size, however large its company was, or it before it was cut.
        """
        if self.sums is not None:
            return replace(self.sums, share=float(shares[0]))
        root, moment = self.white * np.sqrt(shares), self.white @ (shares[:, None] * self.sides)
        if 2 * len(shares) <= len(root):
            return NoisedEvent(moment, rows=root)
        return NoisedEvent(moment, dense=root @ root.T)


def _side(event: NoisedEvent, measure: EpochMeasure) -> Matrix | None:
    """Return what multiplies w to make the moment, where sums are those of one record: ``f f'`` and ``f e_k'``.

    A gram of rank 1 is not enough: records that are multiples of each other have one too.
    """
    if not event.single or event.rows is None:
        return None
    w = event.rows[:, 0]
    side: Matrix = w @ event.moment / max(float(w @ w), 1e-300)
    label = side + w @ (np.tril(measure.factor).T @ measure.head)  # e_k, or its negative: so is w then
    label *= 1.0 if label.sum() > 0 else -1.0
    return side if np.abs(label - np.eye(len(label))[label.argmax()]).max() <= _ONE_HOT else None


def _key(feature: Matrix, label: int) -> bytes:
    return next(iter(Batch(feature[None, :], np.array([label])).digests()))
