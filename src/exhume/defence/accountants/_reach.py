"""Which coordinates carry weight: in the ledger, and in the messages of each client.

A client whose rows are zero in some coordinates can identify the state without them (`exhume.attack.coordinates`), and
reads every deleted record that is zero there too. What it needs is therefore the rank of the coordinates in which its
own messages have weight. A client that never sent a row needs that of all coordinates that ever had any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from exhume.defence.memory import client_names
from exhume.numerics import Matrix, Rows
from exhume.protocol.rules import Occasion
from exhume.protocol.summary import Summary

__all__ = ["Reach"]

Mask = NDArray[np.bool_]


class Reach:
    """The coordinates that ever carried weight, in the ledger and by client."""

    def __init__(self) -> None:
        self._live: Mask | None = None
        self._touched: dict[str, Mask] = {}
        self._with_rows: set[str] = set()

    def after(self, occasion: Occasion) -> Reach:
        """Return the reach with the messages of an occasion in it."""
        new = Reach()
        # What the ledger held before anybody was watched is seen once; from then on messages tell.
        new._live = _weighty(occasion.ledger.summary) if self._live is None else self._live.copy()
        new._touched, new._with_rows = dict(self._touched), set(self._with_rows)
        for client, update in zip(occasion.clients, occasion.updates, strict=True):
            net = update.net
            mask = _weighty(net)
            new._live |= mask
            new._touched[client] = new._touched.get(client, np.zeros_like(mask)) | mask
            if not net.gram_is_zero:
                new._with_rows.add(client)
        return new

    def of(self, members: Iterable[str], d: int) -> Rows:
        """Return the coordinates whose rank identifies the state for some clients together."""
        known = [name for name in members if name in self._touched]
        if any(name in self._with_rows for name in known):
            return np.flatnonzero(np.logical_or.reduce([self._touched[name] for name in known]))
        return np.arange(d) if self._live is None else np.flatnonzero(self._live)

    def needed(self, members: Iterable[str], rank: int, d: int) -> int:
        """Return what a rank counts against: all coordinates with weight, or those of the clients if it fills these."""
        own = len(self.of(members, d))
        return own if rank >= own else self.live(d)

    def live(self, d: int) -> int:
        """Return how many coordinates ever had weight."""
        return d if self._live is None else int(self._live.sum())

    def values(self) -> dict[str, list[str]]:
        """Return names to save."""
        return {"reached": sorted(client_names(self._touched)), "with_rows": sorted(client_names(self._with_rows))}

    def arrays(self) -> dict[str, Matrix]:
        """Return masks to save, as zeros and ones."""
        if self._live is None:
            return {}
        rows = [self._live, *(self._touched[name] for name in sorted(self._touched))]
        return {"reach": np.array(rows, dtype=np.float64)}

    @classmethod
    def restored(cls, values: Mapping[str, list[str]], arrays: Mapping[str, Matrix]) -> Reach:
        """Return the reach that `values` and `arrays` were taken from; an earlier version saved none."""
        made = cls()
        if "reach" in arrays:
            masks = arrays["reach"] != 0.0
            made._live = masks[0]
            made._touched = dict(zip(values["reached"], masks[1:], strict=True))
            made._with_rows = set(values["with_rows"])
        return made


def _weighty(total: Summary) -> Mask:
    """Return the coordinates in which a summary is not zero."""
    return np.asarray((total.diagonal() != 0.0) | total.moment.any(axis=1))
