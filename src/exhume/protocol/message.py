"""What a client can attach to an update for an admission rule to read: a tag, its rows, its class counts.

The protocol carries attachments and does not judge them: that is what admission rules are for.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol._checks import MOST, as_features, as_labels
from exhume.protocol.summary import Summary, Update

__all__ = ["MOST", "MOST_TAG", "Batch", "Message", "count", "itemise", "message"]

MOST_TAG = 64
"""The most bytes of a tag."""


@dataclass(frozen=True, eq=False)
class Batch:
    """The rows behind one side of an update."""

    features: Matrix
    labels: NDArray[np.intp]

    def digests(self) -> Counter[bytes]:
        """Return a digest per row, with how often it occurs."""
        return Counter(
            hashlib.sha256(int(label).to_bytes(8, "little") + (row + 0.0).tobytes()).digest()
            for row, label in zip(self.features, self.labels, strict=True)
        )

    def digest(self) -> bytes:
        """Return one digest of all rows in their order."""
        made = hashlib.sha256(b"exhume rows 1")
        made.update(np.array(self.features.shape, dtype="<i8").tobytes())
        made.update(np.ascontiguousarray(self.labels, dtype="<i8").tobytes())
        made.update(np.ascontiguousarray(self.features, dtype="<f8").tobytes())
        return made.digest()


@dataclass(frozen=True, eq=False)
class Message(Update):
    """An update with attachments. The ledger sees the update alone.

    Attached rows are finite rows of the update's size and counts are one per class, or there is an `InputError`;
    whether they are true is for admission rules to say.
    """

    counter: int = field(default=0)
    """The number of this message among its client's, from 1; 0 for an untagged one."""
    tag: bytes = field(default=b"", repr=False)
    """What the client's key makes of client, counter, content and the other attachments."""
    added: Batch | None = field(default=None, repr=False)
    deleted: Batch | None = field(default=None, repr=False)
    """The rows themselves, for a server that keeps a digest of each."""
    added_counts: tuple[int, ...] | None = None
    deleted_counts: tuple[int, ...] | None = None
    """Declared rows per class."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.counter <= MOST:
            raise InputError("counter", f"from 0 to {MOST}", self.counter)
        if len(self.tag) > MOST_TAG:
            raise InputError("tag", f"at most {MOST_TAG} bytes", f"{len(self.tag)} bytes")
        for side in ("added", "deleted"):
            batch, counts = getattr(self, side), getattr(self, f"{side}_counts")
            if batch is not None:
                object.__setattr__(self, side, self._checked(side, batch))
            if counts is not None and not (len(counts) == self.c and all(0 <= n <= MOST for n in counts)):
                raise InputError("counts", f"one count of at least 0 for each of {self.c} classes", counts)

    def _checked(self, side: str, batch: Batch) -> Batch:
        features = _read_only(as_features(batch.features, self.d, f"{side} features"))
        labels = _read_only(as_labels(batch.labels, len(features), self.c, f"{side} labels"))
        return batch if features is batch.features and labels is batch.labels else Batch(features, labels)

    @property
    def bare(self) -> bool:
        """Whether nothing is attached."""
        others = (self.added, self.deleted, self.added_counts, self.deleted_counts)
        return self.counter == 0 and not self.tag and all(other is None for other in others)


def message(update: Update) -> Message:
    """Return an update as one that can carry attachments."""
    return update if isinstance(update, Message) else Message(update.add, update.delete, update.pairs)


def itemise(
    c: int,
    *,
    add: tuple[Any, Any] | None = None,
    delete: tuple[Any, Any] | None = None,
    factored: bool | None = None,
) -> Message:
    """Return the update of some rows to add and some to delete, with the rows attached; as `Summary.of` makes it."""
    sides = [None if side is None else _batch(*side, c) for side in (add, delete)]
    known = next((side for side in sides if side is not None), None)
    if known is None:
        raise InputError("add, delete", "rows for at least one of the two", "neither")
    d = known.features.shape[1]
    made = [Summary.zeros(d, c) if s is None else Summary.of(s.features, s.labels, c, factored=factored) for s in sides]
    return Message(made[0], made[1], added=sides[0], deleted=sides[1])


def _batch(features: Any, labels: Any, c: int) -> Batch:
    rows = as_features(features)
    return Batch(rows, as_labels(labels, len(rows), c))


def count(update: Update, added: Sequence[int] = (), deleted: Sequence[int] = ()) -> Message:
    """Declare how many rows of each class an update adds and deletes; nothing given means none."""
    sides = [tuple(int(n) for n in side) or (0,) * update.c for side in (added, deleted)]
    return replace(message(update), added_counts=sides[0], deleted_counts=sides[1])


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that nobody can write to: what was checked must stay so."""
    if array.flags.writeable or array.base is not None:
        array = array.copy()
        array.flags.writeable = False
    return array
