"""Duplicates: the same block twice, also under another sign or scale, or added and deleted in one breath."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from exhume.defence.admission._numbers import Sketch, by_name, stacked, unit
from exhume.defence.memory import Memory, Saveable, client_names
from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol import AdmissionRule, Summary, Update

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
    ) -> None:
        if not 0 <= tolerance < 1:
            raise InputError("tolerance", "from 0 to below 1", tolerance)
        self.tolerance = tolerance
        self.mirrored = mirrored
        self._sketch = Sketch(d, c, size, seed)
        self._added: list[Matrix] = []
        self._deleted: dict[str, list[Matrix]] = {}

    def refuse(self, update: Update, client: str) -> str | None:
        """Compare both sides with what was accepted before."""
        add, delete = update.add, update.delete
        if self.mirrored and not add.is_zero and not delete.is_zero and self._same_gram(add, delete):
            return f"{self.name}: the message adds and deletes the same rows: it moves the moment alone"
        if not add.is_zero and _near(self._sketch.key(add), self._added, self.tolerance):
            return f"{self.name}: this block, up to sign and scale, was added before"
        if not delete.is_zero and _near(self._sketch.key(delete), self._deleted.get(client, []), self.tolerance):
            return f"{self.name}: this block, up to sign and scale, was deleted before"
        return None

    def record(self, update: Update, client: str) -> None:
        """Remember both sides."""
        if not update.add.is_zero:
            self._added.append(self._sketch.key(update.add))
        if not update.delete.is_zero:
            self._deleted.setdefault(client, []).append(self._sketch.key(update.delete))

    def _same_gram(self, add: Summary, delete: Summary) -> bool:
        if add.gram is delete.gram:
            return True
        a, b = (unit(self._sketch.gram(side)) for side in (add, delete))
        return float(np.linalg.norm(a - b)) <= self.tolerance

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments but the seed, which is kept with the memory."""
        size = {"d": self._sketch.d, "c": self._sketch.c, "size": self._sketch.size}
        return size | {"tolerance": self.tolerance, "mirrored": self.mirrored}

    def remembered(self) -> Memory:
        """Return the secret and all sketches."""
        owners = client_names(client for client, keys in self._deleted.items() for _ in keys)
        deleted = stacked((key for keys in self._deleted.values() for key in keys), 2 * self._sketch.size)
        arrays = {"added": stacked(self._added, 2 * self._sketch.size), "deleted": deleted}
        return Memory({"seed": self._sketch.seed, "owners": owners}, arrays)

    def restore(self, memory: Memory) -> None:
        """Take over the secret and all sketches."""
        self._sketch = replace(self._sketch, seed=int(memory.values["seed"]))
        self._added = list(memory.arrays["added"].copy())
        self._deleted = by_name(memory.values["owners"], memory.arrays["deleted"])


def _near(key: Matrix, others: list[Matrix], tolerance: float) -> bool:
    return bool(others) and bool((np.linalg.norm(np.array(others) - key, axis=1) <= tolerance).any())


RULES = (Duplicates,)
