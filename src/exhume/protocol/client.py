"""An honest holder of data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from exhume.errors import InputError, NotHeldError
from exhume.numerics import Matrix
from exhume.protocol._checks import as_features, as_labels, as_name
from exhume.protocol.grid import snap
from exhume.protocol.message import Batch, Message, count
from exhume.protocol.server import Receipt
from exhume.protocol.summary import Summary, Update

__all__ = ["Client", "Host"]

Given = tuple[Any, Any]
Held = tuple[Matrix, int]


class Host(Protocol):
    """Where a client's updates go: a `Server`, or something that carries them to one."""

    @property
    def shape(self) -> tuple[int, int]:
        """Feature dimensions and classes (d, c)."""
        ...

    @property
    def grid(self) -> float | None:
        """The grid step that clients snap their features to, or None."""
        ...

    def submit(self, update: Update, client: str) -> Receipt:
        """Take one client's update."""
        ...


class Client:
    """An honest client: builds updates from its own rows and remembers what the server retains of them.

    Parameters
    ----------
    server
        Where updates go.
    name
        Who this client is.
    show_rows
        Whether to attach the rows to every message, for a server that asks for them. It sees them then.
    declare_counts
        Whether to declare how many rows of each class every message holds.
    sign
        What makes the tag of every message, such as `exhume.defence.admission.Signer`; asked last.
    """

    def __init__(
        self,
        server: Host,
        name: str,
        *,
        show_rows: bool = False,
        declare_counts: bool = False,
        sign: Callable[[Update], Update] | None = None,
    ) -> None:
        self._server = server
        self.name = as_name(name)
        self._show_rows, self._declare_counts = show_rows, declare_counts
        self._sign = sign
        self._rows: dict[int, Held] = {}
        self._where: defaultdict[bytes, list[int]] = defaultdict(list)
        self._next = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def retained(self) -> tuple[Matrix, NDArray[np.intp]]:
        """Features and labels of the rows that the server retains, in the order of their addition."""
        d, _ = self._server.shape
        if not self._rows:
            return np.empty((0, d)), np.empty(0, dtype=np.intp)
        rows, labels = zip(*self._rows.values(), strict=True)
        return np.array(rows), np.array(labels, dtype=np.intp)

    def add(self, features: Any, labels: Any) -> Receipt:
        """Send rows to be added."""
        return self.exchange(add=(features, labels))

    def delete(self, features: Any, labels: Any) -> Receipt:
        """Send rows to be deleted; each must be one that this client holds."""
        return self.exchange(delete=(features, labels))

    def exchange(self, *, add: Given | None = None, delete: Given | None = None) -> Receipt:
        """Send one message with a batch to add, a batch to delete, or both.

        The deleted rows must have been held before this message. Nothing is remembered of a refused message.
        """
        if add is None and delete is None:
            raise InputError("add, delete", "a batch for at least one of the two", "neither")
        incoming = self._checked(add)
        leaving = self._find(self._checked(delete))
        update = self._dressed(incoming, [self._rows[i] for i in leaving])
        receipt = self._server.submit(update, self.name)
        if receipt.accepted:
            for i in leaving:
                self._forget(i)
            for row, label in incoming:
                self._keep(row, label)
        return receipt

    def _dressed(self, incoming: Sequence[Held], leaving: Sequence[Held]) -> Update:
        """Return the update of rows that come and go, with what this client attaches."""
        update = Update(self._summary(incoming), self._summary(leaving))
        if self._show_rows:
            update = Message(update.add, update.delete, added=_batch(incoming), deleted=_batch(leaving))
        if self._declare_counts:
            update = count(update, self._counts(incoming), self._counts(leaving))
        return update if self._sign is None else self._sign(update)

    def _counts(self, side: Sequence[Held]) -> list[int]:
        labels = np.array([label for _, label in side], dtype=np.intp)
        return [int(n) for n in np.bincount(labels, minlength=self._server.shape[1])]

    def _checked(self, batch: Given | None) -> list[Held]:
        if batch is None:
            return []
        d, c = self._server.shape
        rows = snap(as_features(batch[0], d), self._server.grid)
        labels = as_labels(batch[1], rows.shape[0], c)
        return [(row.copy(), int(label)) for row, label in zip(rows, labels, strict=True)]

    def _summary(self, side: Sequence[Held]) -> Summary:
        d, c = self._server.shape
        rows = _batch(side)
        if rows is None:
            return Summary.zeros(d, c)
        # On a grid the sums of products are exact, and the factor of more than one row is not.
        exact = self._server.grid is not None and len(rows.features) > 1
        return Summary.of(rows.features, rows.labels, c, factored=False if exact else None)

    def _find(self, batch: list[Held]) -> list[int]:
        """Return the row numbers held for these rows, each used at most once."""
        used: defaultdict[bytes, int] = defaultdict(int)
        found = []
        for position, (row, label) in enumerate(batch):
            key = _key(row, label)
            held = self._where.get(key, [])
            if used[key] >= len(held):
                raise NotHeldError("delete", f"rows that {self.name} holds", f"row {position}, which it does not hold")
            found.append(held[used[key]])
            used[key] += 1
        return found

    def _keep(self, row: Matrix, label: int) -> None:
        self._rows[self._next] = (row, label)
        self._where[_key(row, label)].append(self._next)
        self._next += 1

    def _forget(self, number: int) -> None:
        key = _key(*self._rows.pop(number))
        self._where[key].remove(number)
        if not self._where[key]:
            del self._where[key]

    def __repr__(self) -> str:
        return f"Client('{self.name}', rows={len(self)})"


def _batch(side: Sequence[Held]) -> Batch | None:
    """Return rows as one batch, or None where there are none."""
    if not side:
        return None
    return Batch(np.array([row for row, _ in side]), np.array([label for _, label in side], dtype=np.intp))


def _key(row: Matrix, label: int) -> bytes:
    return label.to_bytes(8, "little") + (row + 0.0).tobytes()  # + 0.0 makes -0.0 and 0.0 the same row
