"""The last so many vectors, each with its owner: a search among them costs the same however long the history is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from exhume.defence.admission._numbers import stacked
from exhume.defence.memory import Memory, client_names
from exhume.numerics import Matrix
from exhume.protocol.rules import Undo

__all__ = ["MOST", "Recent"]

MOST = 4096
"""Vectors that are kept; the oldest make room."""


class Recent:
    """A ring of vectors in one array that is never built anew. A step can be taken back (`mark`)."""

    def __init__(self, width: int, most: int = MOST) -> None:
        self._vectors: Matrix = np.zeros((min(most, 64), width))
        self._owners: NDArray[np.intp] = np.full(len(self._vectors), -1)
        self._ids: dict[str, int] = {}
        self._most, self._added = most, 0
        self._replaced: list[tuple[int, Matrix, int]] = []

    def __len__(self) -> int:
        return min(self._added, self._most)

    @property
    def vectors(self) -> Matrix:
        """What is kept, in no order that matters."""
        return self._vectors[: len(self)]

    def of(self, client: str) -> NDArray[np.bool_]:
        """Say of each kept vector whether it is a client's."""
        return np.asarray(self._owners[: len(self)] == self._ids.get(client, -2))

    def add(self, client: str, vector: Matrix) -> None:
        """Take up one vector."""
        place = self._added % self._most
        if place >= len(self._vectors):
            size = min(2 * len(self._vectors), self._most)
            vectors, owners = np.zeros((size, self._vectors.shape[1])), np.full(size, -1)
            vectors[: len(self._vectors)], owners[: len(self._owners)] = self._vectors, self._owners
            self._vectors, self._owners = vectors, owners
        self._replaced.append((place, self._vectors[place].copy(), int(self._owners[place])))
        self._vectors[place], self._owners[place] = vector, self._ids.setdefault(client, len(self._ids))
        self._added += 1

    def mark(self) -> Undo:
        """Return what takes back everything since."""
        self._replaced, added = [], self._added

        def undo() -> None:
            for place, vector, owner in reversed(self._replaced):
                self._vectors[place], self._owners[place] = vector, owner
            self._replaced, self._added = [], added

        return undo

    def _in_order(self) -> Iterator[int]:
        first = max(self._added - self._most, 0)
        return (i % self._most for i in range(first, self._added))

    def remembered(self) -> Memory:
        """Return owners and vectors, the oldest first."""
        names = client_names(self._ids)
        order = list(self._in_order())
        owners = [names[self._owners[i]] for i in order]
        return Memory({"owners": owners}, {"vectors": stacked(self._vectors[order], self._vectors.shape[1])})

    @classmethod
    def restored(cls, memory: Memory, most: int = MOST) -> Recent:
        """Return what `remembered` was taken from."""
        vectors = memory.arrays["vectors"]
        made = cls(vectors.shape[1], most)
        for owner, vector in zip(memory.values["owners"], vectors, strict=True):
            made.add(owner, vector)
        return made
