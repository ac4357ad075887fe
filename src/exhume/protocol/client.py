"""An honest holder of data."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.errors import InputError, NotHeldError
from exhume.protocol._checks import Matrix, as_features, as_labels
from exhume.protocol.grid import snap
from exhume.protocol.server import Receipt, Server
from exhume.protocol.summary import Summary, Update

__all__ = ["Client"]

Batch = tuple[Any, Any]


class Client:
    """An honest client: builds updates from its own rows and remembers what the server retains of them.

    Parameters
    ----------
    server
        Where updates go.
    name
        Who this client is.
    """

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self.name = name
        self._rows: dict[int, tuple[Matrix, int]] = {}
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

    def exchange(self, *, add: Batch | None = None, delete: Batch | None = None) -> Receipt:
        """Send one message with a batch to add, a batch to delete, or both.

        The deleted rows must have been held before this message. Nothing is remembered of a refused message.
        """
        if add is None and delete is None:
            raise InputError("add, delete", "a batch for at least one of the two", "neither")
        incoming = self._checked(add)
        leaving = self._find(self._checked(delete))
        update = Update(self._summary(incoming), self._summary(self._rows[i] for i in leaving))
        receipt = self._server.submit(update, self.name)
        if receipt.accepted:
            for i in leaving:
                self._forget(i)
            for row, label in incoming:
                self._keep(row, label)
        return receipt

    def _checked(self, batch: Batch | None) -> list[tuple[Matrix, int]]:
        if batch is None:
            return []
        d, c = self._server.shape
        rows = snap(as_features(batch[0], d), self._server.grid)
        labels = as_labels(batch[1], rows.shape[0], c)
        return [(row.copy(), int(label)) for row, label in zip(rows, labels, strict=True)]

    def _summary(self, batch: Any) -> Summary:
        pairs = list(batch)
        d, c = self._server.shape
        if not pairs:
            return Summary.zeros(d, c)
        return Summary.of(np.array([row for row, _ in pairs]), np.array([label for _, label in pairs]), c)

    def _find(self, batch: list[tuple[Matrix, int]]) -> list[int]:
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


def _key(row: Matrix, label: int) -> bytes:
    return label.to_bytes(8, "little") + (row + 0.0).tobytes()  # + 0.0 makes -0.0 and 0.0 the same row
