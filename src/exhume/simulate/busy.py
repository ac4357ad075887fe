"""A server that is never quiet: honest changes between the attacker's messages, or in one broadcast with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exhume.errors import RefusedError
from exhume.protocol.head import Head
from exhume.protocol.server import Server
from exhume.protocol.summary import Update

__all__ = ["BusyTarget", "HonestPlan"]


@dataclass(frozen=True)
class HonestPlan:
    """What honest clients do, by the number of messages that the attacker has sent by then."""

    between: Mapping[int, Sequence[Update]]
    """Changes with a broadcast of their own."""
    merged: Mapping[int, Update] | None = None
    """Changes that the server puts into one round, and one broadcast, with the attacker's next message."""

    @property
    def events(self) -> int:
        """How many honest changes there are."""
        return sum(map(len, self.between.values())) + len(self.merged or {})


class BusyTarget:
    """A `Target` on which honest clients work too: each look at the head finds one more of their changes.

    Parameters
    ----------
    server
        The server behind it.
    plan
        What honest clients do and when.
    client
        The attacker's name.
    """

    def __init__(self, server: Server, plan: HonestPlan, client: str = "attacker") -> None:
        self._server, self._client = server, client
        self._between = {at: list(updates) for at, updates in plan.between.items()}
        self._merged = dict(plan.merged or {})
        self._sent = 0

    def head(self) -> Head:
        """Return the newest head, after the next honest change if one is due."""
        due = self._between.get(self._sent)
        if due:
            self._server.submit(due.pop(0), "honest")
        return self._server.head()

    def submit(self, update: Update) -> Head:
        """Submit an update; an honest one may be in the same round."""
        messages = [(self._client, update)]
        if self._sent in self._merged:
            messages.append(("honest", self._merged.pop(self._sent)))
        receipt = self._server.submit_round(messages)[0]
        if receipt.reason is not None:
            raise RefusedError(receipt.reason, receipt.rule)
        self._sent += 1
        return receipt.head if receipt.head is not None else self._server.head()

    def __repr__(self) -> str:
        return f"BusyTarget({self._server!r}, {sum(map(len, self._between.values()))} changes to come)"
