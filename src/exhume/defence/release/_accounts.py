"""The account of a continual release: what heads tell of each event, the newest one by one and all of them in sums.

A server may live for any number of events, so what is kept of them has an end: of each kind (coming, going) the newest
`KEPT`, and a tally of all. Neither memory, nor a saved state, nor what an operator asks for grows with the history.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from typing import Any

from exhume.defence.release._evaluator import DeletionAccount, EventTally

__all__ = ["KEPT", "Accounts", "EventAccount"]

KEPT = 1000
"""Newest events of a kind that are kept one by one: as many deletions as the service shows at once, 0.2 MB in all."""

_KINDS = {False: "additions", True: "deletions"}


@dataclass(frozen=True)
class EventAccount(DeletionAccount):
    """A block that came or went, and what all heads ever released tell of that.

    Where its rows were shown, ``mu`` is the largest of a record in it: it bounds each. Of sums it is a bound that no
    record in them is above (`_figures`); that of the block as a whole can be less, since moments of records cancel.
    """

    deleted: bool = True
    block: float | None = None
    """The mu of all of it as one: the bound for its records as a group. None in states that were saved without."""
    rows: int = 0
    """How many rows were shown; 0 where only sums were sent."""

    @property
    def together(self) -> float:
        """The mu of the block as a whole."""
        return self.mu if self.block is None else self.block

    @property
    def life(self) -> float:
        """The mu of the whole life of a record in it (of the block, for sums): its addition and its deletion."""
        return math.sqrt(2.0) * self.mu

    def as_one(self) -> EventAccount:
        """Return the account for whoever asks about all of it: the larger of both figures."""
        return replace(self, mu=max(self.mu, self.together))

    def looks(self) -> dict[str, float]:
        """Return every mu that has figures, that of the block too."""
        return {**super().looks(), "block": self.together}


class Accounts:
    """The newest events one by one, and a tally of all."""

    def __init__(self) -> None:
        self._kept: dict[bool, deque[tuple[int, EventAccount]]] = {kind: deque(maxlen=KEPT) for kind in _KINDS}
        self._tallies = dict.fromkeys(_KINDS, EventTally())

    def add(self, accounts: Iterable[EventAccount]) -> None:
        """Take up events, in order and in place."""
        for account in accounts:
            place = sum(tally.events for tally in self._tallies.values())
            self._kept[account.deleted].append((place, account))
            self._tallies[account.deleted] = _with(self._tallies[account.deleted], account)

    def newest(self) -> tuple[EventAccount, ...]:
        """Return the events that are kept, in order."""
        both = sorted((found for kind in self._kept.values() for found in kind), key=itemgetter(0))
        return tuple(account for _, account in both)

    def deletions(self) -> tuple[EventAccount, ...]:
        """Return the deletions that are kept, in order."""
        return tuple(account for _, account in self._kept[True])

    def tallies(self, pending: Iterable[EventAccount] = ()) -> dict[str, EventTally]:
        """Return how many there were of each kind, and the largest figures of all; some that are to come counted in."""
        found = dict(self._tallies)
        for account in pending:
            found[account.deleted] = _with(found[account.deleted], account)
        return {name: found[kind] for kind, name in _KINDS.items()}

    def values(self) -> dict[str, Any]:
        """Return all of it for a saved state."""
        tallies = {name: asdict(tally) for name, tally in self.tallies().items()}
        return {"accounts": [asdict(account) for account in self.newest()], "tallies": tallies}

    @classmethod
    def restored(cls, values: Mapping[str, Any]) -> Accounts:
        """Return it from a saved state; older ones have every event and no tally."""
        made = cls()
        made.add(EventAccount(**account) for account in values["accounts"])
        for kind, name in _KINDS.items():
            if name in values.get("tallies", {}):
                made._tallies[kind] = EventTally(**values["tallies"][name])
        return made


def _with(tally: EventTally, account: EventAccount) -> EventTally:
    return EventTally(tally.events + 1, max(tally.mu, account.mu), max(tally.block, account.together))
