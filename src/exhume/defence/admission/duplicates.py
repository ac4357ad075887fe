"""Duplicates: the same block twice, also under another sign or scale, or added and deleted in one breath."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from exhume.defence.admission._numbers import Sketch, unit
from exhume.defence.admission._recent import MOST, Recent
from exhume.defence.memory import Memory, Saveable, together
from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol import AdmissionRule, Summary, Update
from exhume.protocol.rules import Undo

__all__ = ["TOLERANCE", "Duplicates"]

TOLERANCE = 2.0**-20
"""Relative distance below which two blocks are one.

A client that recomputes a block from rows kept in float32 moves its gram by up to ``2 * 2**-24`` and its moment by
``2**-24``, relative; summing 2**16 rows in another order by ``2**-37``. The sketch keeps distances within a factor of
two but for one case in a million (32 numbers); the rest is margin.
"""


class Duplicates(Saveable, AdmissionRule):
    """Refuses additions that were added before by anybody, deletions that the client made before, and mirrored pairs.

    Blocks are compared by normalised sketches, gram and moment each, the moment up to sign: ``f -> s f`` scales the
    gram by s^2 and the moment by s, so a repeated block is found whatever its sign and scale. A mirrored pair is a
    message whose two grams are the same block: it moves the moment alone, which is how Lemma 1 and Lemma 2 probe.

    Parameters
    ----------
    d, c
        Size of the summaries.
    tolerance
        Relative distance up to which two blocks are the same.
    mirrored
        Whether to refuse mirrored pairs. An honest correction of a label is one: it must then be sent as a deletion
        and an addition.
    seed
        The secret of the sketch; drawn if not given.
    others
        Whether additions are compared with everybody's. A refusal then tells its sender what somebody else has added;
        without, a client is compared with itself alone.
    most
        Blocks that are remembered on each side: the cost of a message does not grow beyond that.
    """

    name = "duplicates"
    about = "no block twice, up to sign and scale; no mirrored pairs"

    def __init__(
        self,
        d: int,
        c: int,
        *,
        tolerance: float = TOLERANCE,
        mirrored: bool = True,
        seed: int | None = None,
        size: int = 32,
        others: bool = True,
        most: int = MOST,
    ) -> None:
        if not 0 <= tolerance < 1:
            raise InputError("tolerance", "from 0 to below 1", tolerance)
        self.tolerance = tolerance
        if most < 1:
            raise InputError("most", "at least 1", most)
        self.mirrored, self.others, self.most = mirrored, bool(others), int(most)
        self._sketch = Sketch(d, c, size, seed)
        self._added, self._deleted = (Recent(2 * size, self.most) for _ in range(2))

    @property
    def reads(self) -> str:
        """Others' additions decide, unless a client is compared with itself alone."""
        return "everyone" if self.others else "client"

    def refuse(self, update: Update, client: str) -> str | None:
        """Compare both sides with what was accepted before."""
        add, delete = update.add, update.delete
        if self.mirrored and not add.is_zero and not delete.is_zero and self._same_gram(add, delete):
            return f"{self.name}: the message adds and deletes the same rows: it moves the moment alone"
        if not add.is_zero and self._near(add, self._added, None if self.others else client):
            return f"{self.name}: this block, up to sign and scale, was added before"
        if not delete.is_zero and self._near(delete, self._deleted, client):
            return f"{self.name}: this block, up to sign and scale, was deleted before"
        return None

    def record(self, update: Update, client: str) -> None:
        """Remember both sides."""
        if not update.add.is_zero:
            self._added.add(client, self._sketch.key(update.add))
        if not update.delete.is_zero:
            self._deleted.add(client, self._sketch.key(update.delete))

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Take back what the step remembers."""
        return together(self._added.mark(), self._deleted.mark())

    def _near(self, block: Summary, known: Recent, client: str | None) -> bool:
        """Say whether a block is near one that was taken before, of one client or of anybody."""
        key: Matrix = self._sketch.key(block)
        others = known.vectors if client is None else known.vectors[known.of(client)]
        return bool((np.linalg.norm(others - key, axis=1) <= self.tolerance).any())

    def _same_gram(self, add: Summary, delete: Summary) -> bool:
        if add.shares_gram(delete):
            return True
        a, b = (unit(self._sketch.gram(side)) for side in (add, delete))
        return float(np.linalg.norm(a - b)) <= self.tolerance

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments but the seed, which is kept with the memory."""
        size = {"d": self._sketch.d, "c": self._sketch.c, "size": self._sketch.size}
        rest = {name: getattr(self, name) for name in ("tolerance", "mirrored", "others", "most")}
        return size | rest

    def remembered(self) -> Memory:
        """Return the secret and all sketches."""
        added, deleted = self._added.remembered(), self._deleted.remembered()
        values = {"added": added.values["owners"], "deleted": deleted.values["owners"]}
        arrays = {"added": added.arrays["vectors"], "deleted": deleted.arrays["vectors"]}
        return Memory({"seed": self._sketch.seed, **values}, arrays)

    def restore(self, memory: Memory) -> None:
        """Take over the secret and all sketches."""
        self._sketch = replace(self._sketch, seed=int(memory.values["seed"]))
        self._added, self._deleted = (
            Recent.restored(Memory({"owners": memory.values[side]}, {"vectors": memory.arrays[side]}), self.most)
            for side in ("added", "deleted")
        )


RULES = (Duplicates,)
