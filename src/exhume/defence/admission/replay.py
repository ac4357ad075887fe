"""Replay: what one client had deleted must not come back from another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.defence.admission._numbers import Sketch, content
from exhume.defence.admission._recent import MOST, Recent
from exhume.defence.admission._standing import StandingBlocks
from exhume.defence.memory import Memory, Saveable
from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol import AdmissionRule, Batch, Summary, Update
from exhume.protocol.message import message
from exhume.protocol.rules import Undo

__all__ = ["Replay"]


class Replay(Saveable, AdmissionRule):
    """Refuses an addition near a block that another client deleted, or sets it aside.

    The server keeps a short linear sketch of every deletion, not the block: forgetting it is the point. A recovered
    block carries the error of its recovery, so the tolerance is a distance between different honest records, not
    roundoff. Where messages show their rows (`itemise`), each row is compared; else only whole messages are, and a
    block mixed with other rows passes.

    A refusal tells its sender that the block is one that was deleted. With ``aside`` the receipt is the same as for any
    other message, the ledger does not move, and a later deletion of it is matched in silence. Heads still differ by
    what is not in them: who adds its guess again and again sees that through any noise.

    Parameters
    ----------
    d, c
        Size of the summaries.
    tolerance
        Relative distance of gram and moment together below which an addition is taken for the deleted block. Choose it
        below the distance of the nearest two honest records (`Replay.nearest` measures it on a sample).
    seed
        The secret of the sketch; drawn if not given.
    aside
        Whether to set such an addition aside instead of refusing it. What a message of sums mixes it with goes with it.
    most
        Deletions that are remembered: the cost of a message does not grow beyond that.
    """

    name = "replay"
    about = "no addition near somebody else's deletion"

    def __init__(
        self,
        d: int,
        c: int,
        *,
        tolerance: float = 0.1,
        seed: int | None = None,
        size: int = 64,
        aside: bool = False,
        most: int = MOST,
    ) -> None:
        if not 0 < tolerance < 1:
            raise InputError("tolerance", "between 0 and 1", tolerance)
        if most < 1:
            raise InputError("most", "at least 1", most)
        self.tolerance, self.aside, self.most = tolerance, bool(aside), int(most)
        self._sketch = Sketch(d, c, size, seed)
        self._deleted = Recent(2 * size, self.most)
        self._aside = StandingBlocks()

    @property
    def reads(self) -> str:
        """Refusals depend on others' deletions; what is set aside does not show."""
        return "client" if self.aside else "everyone"

    def refuse(self, update: Update, client: str) -> str | None:
        """Compare an addition, and each of its rows where it shows them, with everybody else's deletions."""
        if self.aside or update.add.is_zero:
            return None
        whole, rows = self._near(update.add, message(update).added, client)
        if whole or rows.any():
            return f"{self.name}: this block is one that another client had deleted"
        return None

    def taken(self, update: Update, client: str) -> Update:
        """Leave out what is near somebody else's deletion, and what was left out when it came."""
        if not self.aside:
            return update
        told = message(update)
        add, delete = update.add, update.delete
        gone = self._gone(update, client)
        if gone is not None:
            add = _without(add, told.added, gone)
        held = self._held(update, client)
        if held is not None:
            delete = _without(delete, told.deleted, held)
        return update if add is update.add and delete is update.delete else Update(add, delete, update.pairs)

    def record(self, update: Update, client: str) -> None:
        """Remember a deletion's sketch, one for each row where it shows them, and what was set aside."""
        told = message(update)
        gone, held = (self._gone(update, client), self._held(update, client)) if self.aside else (None, None)
        if held is not None:
            self._aside.retire(client, _digests(update.delete, told.deleted, held))
        if gone is not None:
            self._aside.note(client, _digests(update.add, told.added, gone))
        if not update.delete.is_zero:
            for key in self._keys(update.delete, told.deleted):
                self._deleted.add(client, key)

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Take back what the step remembers."""
        undos = (self._deleted.mark(), self._aside.mark())

        def undo() -> None:
            for one in undos:
                one()

        return undo

    def _gone(self, update: Update, client: str) -> NDArray[np.bool_] | None:
        """Say which rows of an addition (or whether the whole) are near a deletion; None where nothing is."""
        if update.add.is_zero:
            return None
        batch = message(update).added
        whole, rows = self._near(update.add, batch, client)
        if batch is None:
            return np.array([True]) if whole else None
        if whole:
            rows = np.ones(len(rows), dtype=bool)
        return rows if rows.any() else None

    def _held(self, update: Update, client: str) -> NDArray[np.bool_] | None:
        """Say which rows of a deletion (or whether the whole) were set aside when they came; None where nothing was."""
        if update.delete.is_zero:
            return None
        batch, used, found = message(update).deleted, Counter[bytes](), []
        for key in _each(update.delete, batch):
            used[key] += 1
            found.append(self._aside.holds(client, Counter({key: used[key]})))
        return np.array(found) if any(found) else None

    def _near(self, summary: Summary, batch: Batch | None, client: str) -> tuple[bool, NDArray[np.bool_]]:
        """Say whether a whole block, and which of its rows, are near somebody else's deletion."""
        keys = self._keys(summary, batch)
        known = self._deleted.vectors[~self._deleted.of(client)]
        room = self.tolerance * np.linalg.norm(known, axis=1)
        near = np.array([bool((np.linalg.norm(known - key, axis=1) <= room).any()) for key in keys])
        return bool(near[0]), near[1:]

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
        return size | {"tolerance": self.tolerance, "aside": self.aside, "most": self.most}

    def remembered(self) -> Memory:
        """Return the secret, the sketches of deletions, and the digests of what is set aside."""
        kept = self._deleted.remembered()
        plain = {"seed": self._sketch.seed, "aside": self._aside.remembered()}
        return Memory({**kept.values, **plain}, kept.arrays)

    def restore(self, memory: Memory) -> None:
        """Take over the secret, the sketches and the digests."""
        self._sketch = replace(self._sketch, seed=int(memory.values["seed"]))
        self._deleted = Recent.restored(memory, self.most)
        self._aside = StandingBlocks.restored(memory.values["aside"])


def _each(summary: Summary, batch: Batch | None) -> list[bytes]:
    """Return a digest per row, or one of the whole where no rows are shown."""
    if batch is None:
        return [content(summary)]
    rows = zip(batch.features, batch.labels, strict=True)
    return [key for row, label in rows for key in Batch(row[None, :], np.array([label])).digests()]


def _digests(summary: Summary, batch: Batch | None, which: NDArray[np.bool_]) -> Counter[bytes]:
    return Counter(key for key, chosen in zip(_each(summary, batch), which, strict=True) if chosen)


def _without(summary: Summary, batch: Batch | None, which: NDArray[np.bool_]) -> Summary:
    """Return a summary without some of its rows; without everything where no rows are shown or none is left."""
    if batch is None or which.all():
        return Summary.zeros(summary.d, summary.c)
    return Summary.of(batch.features[~which], batch.labels[~which], summary.c)


RULES = (Replay,)
