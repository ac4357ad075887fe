"""Replay: what one client had deleted must not come back from another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from exhume.defence.admission._numbers import Sketch, stacked
from exhume.defence.memory import Memory, Saveable, client_names
from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol import AdmissionRule, Batch, Summary, Update
from exhume.protocol.message import message

__all__ = ["Replay"]


class Replay(Saveable, AdmissionRule):
    """Refuses an addition near a block that another client deleted.

    The server keeps a short linear sketch of every deletion, not the block: forgetting it is the point. A recovered
    block carries the error of its recovery, so the tolerance is a distance between different honest records, not
    roundoff. Where messages show their rows (`itemise`), each row is compared; else only whole messages are, and a
    block mixed with other rows passes.

    Parameters
    ----------
    d, c
        Size of the summaries.
    tolerance
        Relative distance of gram and moment together below which an addition is taken for the deleted block. Choose it
        below the distance of the nearest two honest records (`Replay.nearest` measures it on a sample).
    seed
        The secret of the sketch; drawn if not given.
    """

    name = "replay"
    about = "no addition near somebody else's deletion"

    def __init__(self, d: int, c: int, *, tolerance: float = 0.1, seed: int | None = None, size: int = 64) -> None:
        if not 0 < tolerance < 1:
            raise InputError("tolerance", "between 0 and 1", tolerance)
        self.tolerance = tolerance
        self._sketch = Sketch(d, c, size, seed)
        self._deleted: list[tuple[str, Matrix]] = []

    def refuse(self, update: Update, client: str) -> str | None:
        """Compare an addition, and each of its rows where it shows them, with everybody else's deletions."""
        others = [key for owner, key in self._deleted if owner != client]
        if update.add.is_zero or not others:
            return None
        known = np.array(others)
        room = self.tolerance * np.linalg.norm(known, axis=1)
        for key in self._keys(update.add, message(update).added):
            if (np.linalg.norm(known - key, axis=1) <= room).any():
                return f"{self.name}: this block is one that another client had deleted"
        return None

    def record(self, update: Update, client: str) -> None:
        """Remember a deletion's sketch, and one for each row where it shows them."""
        if not update.delete.is_zero:
            keys = self._keys(update.delete, message(update).deleted)
            self._deleted += [(client, key) for key in keys]

    def _keys(self, summary: Summary, batch: Batch | None) -> list[Matrix]:
        rows = () if batch is None else self._sketch.rows(batch.features, batch.labels)
        return [self._sketch(summary), *rows]

    @staticmethod
    def nearest(features: Matrix, labels: Matrix) -> float:
        """Return the least relative distance between the blocks of two different rows of an honest sample.

        ``|ff' - gg'|^2 = |f|^4 + |g|^4 - 2 (f'g)^2``; the moments differ by ``f - g`` in one column or by both in two.
        """
        product = features @ features.T
        squares = np.diag(product)
        same = np.equal.outer(labels, labels)
        gap = squares[:, None] ** 2 + squares[None, :] ** 2 - 2 * product**2
        gap = gap + squares[:, None] + squares[None, :] - 2 * product * same
        share = np.sqrt(np.maximum(gap, 0.0) / np.maximum(squares**2 + squares, 1e-300)[None, :])
        np.fill_diagonal(share, np.inf)
        return float(share.min())

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments but the seed, which is kept with the memory."""
        size = {"d": self._sketch.d, "c": self._sketch.c, "size": self._sketch.size}
        return size | {"tolerance": self.tolerance}

    def remembered(self) -> Memory:
        """Return the secret and the sketches of all deletions."""
        arrays = {"deleted": stacked((key for _, key in self._deleted), 2 * self._sketch.size)}
        owners = client_names(client for client, _ in self._deleted)
        return Memory({"seed": self._sketch.seed, "owners": owners}, arrays)

    def restore(self, memory: Memory) -> None:
        """Take over the secret and the sketches."""
        self._sketch = replace(self._sketch, seed=int(memory.values["seed"]))
        rows = zip(memory.values["owners"], memory.arrays["deleted"], strict=True)
        self._deleted = [(client, key.copy()) for client, key in rows]


RULES = (Replay,)
