"""Strict ownership: a client may delete what it added, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from exhume.defence.admission._numbers import Sketch, by_name, stacked
from exhume.defence.admission._standing import StandingBlocks
from exhume.defence.admission.duplicates import TOLERANCE
from exhume.defence.memory import Memory, Saveable, client_names, keep_entries, together
from exhume.numerics import Matrix
from exhume.protocol import AdmissionRule, Batch, Summary, Update
from exhume.protocol.message import Message, message
from exhume.protocol.rules import Undo

__all__ = ["Ownership"]


class Ownership(Saveable, AdmissionRule):
    """Refuses deletions that are not made of the same client's standing additions.

    A plain message is one item: a deletion must equal one standing item, all of them, or, while they are linearly
    independent and no more than ``size``, the sum of any of them (found by least squares on linear sketches). A
    message of `itemise` shows its rows once: the rule checks that they make the summaries, keeps one digest a row, and
    matches deletions row by row.

    Parameters
    ----------
    d, c
        Size of the summaries.
    tolerance
        Relative distance up to which two blocks are the same.
    seed
        The secret of the sketch; drawn if not given.
    show_rows
        Whether every message must show its rows.
    """

    name = "ownership"
    about = "deletions are made of what the same client added"
    reads: ClassVar[str] = "client"
    former_options: ClassVar[Mapping[str, str]] = {"rows": "show_rows"}

    def __init__(
        self,
        d: int,
        c: int,
        *,
        tolerance: float = TOLERANCE,
        seed: int | None = None,
        size: int = 32,
        show_rows: bool = False,
    ) -> None:
        self.tolerance = tolerance
        self.show_rows = show_rows
        self._sketch = Sketch(d, c, size, seed)
        self._items: dict[str, list[Matrix]] = {}
        self._rows = StandingBlocks()

    @property
    def asks(self) -> frozenset[str]:
        """Messages must show their rows where ``show_rows`` is set."""
        return frozenset({"rows"} if self.show_rows else ())

    @property
    def keeps_positive(self) -> bool:
        """Where rows are shown the ledger takes the server's own sums of them, and nothing goes but what came."""
        return self.show_rows

    def refuse(self, update: Update, client: str) -> str | None:
        """Match the deletion with what the client has standing, and rows with the summaries that they claim."""
        listed = message(update)
        for side, summary, batch in (("add", update.add, listed.added), ("delete", update.delete, listed.deleted)):
            if batch is not None and not self._makes(batch, summary):
                return f"{self.name}: {side}: the rows shown do not make the summaries"
            if self.show_rows and batch is None and not summary.is_zero:
                return f"{self.name}: {side}: this server asks for the rows of every message"
        if listed.deleted is not None:  # rows of zeros, too: who never had them gets no credit for them
            missing = self._rows.missing(client, listed.deleted.digests())
            return f"{self.name}: {missing} deleted rows are not '{client}'s own" if missing else None
        if not update.delete.is_zero and self._find(update.delete, client) is None:
            return f"{self.name}: the deleted block is no sum of standing additions of '{client}'"
        return None

    def taken(self, update: Update, client: str) -> Update:
        """Take the server's own sums of the rows shown: what stands is then made of rows, to the last bit of them.

        Sums that are off by the tolerance, again and again, would move the totals where no row does.
        """
        told = message(update)
        if told.added is None and told.deleted is None:
            return update
        sides = ((update.add, told.added), (update.delete, told.deleted))
        made = [s if b is None else Summary.of(b.features, b.labels, update.c) for s, b in sides]
        return Message(made[0], made[1], update.pairs, added=told.added, deleted=told.deleted)

    def record(self, update: Update, client: str) -> None:
        """Retire what was deleted, note what was added."""
        listed = message(update)
        if listed.deleted is not None:
            self._rows.retire(client, listed.deleted.digests())
        elif not update.delete.is_zero:
            gone = set(self._find(update.delete, client) or ())
            self._items[client] = [item for i, item in enumerate(self._items.get(client, [])) if i not in gone]
        if listed.added is not None:
            self._rows.note(client, listed.added.digests())
        elif not update.add.is_zero:
            self._items[client] = [*self._items.get(client, []), self._sketch(update.add)]

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Keep these clients' items, and take back what the step does to their rows."""
        return together(keep_entries(self._items, clients), self._rows.mark())

    def _makes(self, batch: Batch, summary: Summary) -> bool:
        made = Summary.of(batch.features, batch.labels, summary.c)
        rows = summary.factor if summary.is_square else None
        if rows is None or not np.array_equal(rows, batch.features):
            gap = (made - summary).gram_norm
            if gap > self.tolerance * made.gram_norm:
                return False
        gap = float(np.linalg.norm(made.moment - summary.moment))
        return gap <= self.tolerance * float(np.linalg.norm(made.moment))

    def _find(self, block: Summary, client: str) -> tuple[int, ...] | None:
        """Return the standing items whose sum is the block, or None."""
        items = np.array(self._items.get(client, []))
        if not len(items):
            return None
        key = self._sketch(block)
        # Roundoff of a sum is relative to its parts, which may be larger than the sum's own sketch.
        room = self.tolerance * float(np.linalg.norm(key))
        single = np.linalg.norm(items - key, axis=1)
        if single.min() <= room:
            return (int(single.argmin()),)
        if np.linalg.norm(items.sum(axis=0) - key) <= room:
            return tuple(range(len(items)))
        if len(items) > self._sketch.size:
            return None
        shares = np.linalg.lstsq(items.T, key, rcond=None)[0]
        chosen = np.flatnonzero(shares > 0.5)
        matched = len(chosen) > 0 and np.linalg.norm(items[chosen].sum(axis=0) - key) <= room
        return tuple(int(i) for i in chosen) if matched else None

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments but the seed, which is kept with the memory."""
        size = {"d": self._sketch.d, "c": self._sketch.c, "size": self._sketch.size}
        return size | {"tolerance": self.tolerance, "show_rows": self.show_rows}

    def remembered(self) -> Memory:
        """Return the secret, the sketches of standing messages and the digests of standing rows."""
        owners = client_names(client for client, items in self._items.items() for _ in items)
        rows = self._rows.remembered()
        items = stacked((item for items in self._items.values() for item in items), 2 * self._sketch.size)
        return Memory({"seed": self._sketch.seed, "owners": owners, "rows": rows}, {"items": items})

    def restore(self, memory: Memory) -> None:
        """Take over the secret, sketches and digests."""
        self._sketch = replace(self._sketch, seed=int(memory.values["seed"]))
        self._items = by_name(memory.values["owners"], memory.arrays["items"])
        self._rows = StandingBlocks.restored(memory.values["rows"])


RULES = (Ownership,)
