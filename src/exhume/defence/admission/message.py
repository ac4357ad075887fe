"""What a client can attach to an update for an admission rule to read: a tag, its rows, its class counts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.defence.admission._numbers import Matrix
from exhume.errors import InputError
from exhume.protocol import Summary, Update

__all__ = ["Batch", "Message", "count", "itemise", "message"]


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


@dataclass(frozen=True, eq=False)
class Message(Update):
    """An update with attachments. The ledger sees the update alone."""

    counter: int = field(default=0)
    """The number of this message among its client's, from 1; 0 for an untagged one."""
    tag: bytes = field(default=b"", repr=False)
    """What the client's key makes of client, counter and content."""
    added: Batch | None = field(default=None, repr=False)
    deleted: Batch | None = field(default=None, repr=False)
    """The rows themselves, for a server that keeps a digest of each."""
    added_counts: tuple[int, ...] | None = None
    deleted_counts: tuple[int, ...] | None = None
    """Declared rows per class."""


def message(update: Update) -> Message:
    """Return an update as one that can carry attachments."""
    return update if isinstance(update, Message) else Message(update.add, update.delete, update.pairs)


def itemise(c: int, *, add: tuple[Any, Any] | None = None, delete: tuple[Any, Any] | None = None) -> Message:
    """Return the update of some rows to add and some to delete, with the rows attached."""
    sides = [
        None if side is None else Batch(np.asarray(side[0], dtype=np.float64), np.asarray(side[1], dtype=np.intp))
        for side in (add, delete)
    ]
    known = next((side for side in sides if side is not None), None)
    if known is None:
        raise InputError("add, delete", "rows for at least one of the two", "neither")
    d = known.features.shape[1]
    made = [Summary.zeros(d, c) if s is None else Summary.of(s.features, s.labels, c) for s in sides]
    return Message(made[0], made[1], added=sides[0], deleted=sides[1])


def count(update: Update, added: Sequence[int] = (), deleted: Sequence[int] = ()) -> Message:
    """Declare how many rows of each class an update adds and deletes; nothing given means none."""
    sides = [tuple(int(n) for n in side) or (0,) * update.c for side in (added, deleted)]
    for side in sides:
        if len(side) != update.c or min(side) < 0:
            raise InputError("counts", f"one count of at least 0 for each of {update.c} classes", side)
    return replace(message(update), added_counts=sides[0], deleted_counts=sides[1])
