"""What a ServerApp keeps beyond its run: the ledger behind its rules, the rounds played, whose messages are in it.

The state of a ServerApp ends with its run. A book does not: a run that was stopped goes on from the last whole round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.server import Receipt, Server
from exhume.protocol.summary import Update

__all__ = ["Book", "MemoryBook", "client_name", "since_last"]

_TRAIN = "train"


class Book(Protocol):
    """A server with the history that nodes are told of."""

    @property
    def server(self) -> Server:
        """The ledger behind its rules."""
        ...

    @property
    def rounds(self) -> int:
        """How many rounds are finished."""
        ...

    def head(self) -> Head:
        """Return the public head; `RefusedError` where none has been released."""
        ...

    def name(self, node: int) -> str:
        """Return the name under which rules know a node."""
        ...

    def knows(self, client: str) -> bool:
        """Return whether this client has ever been answered."""
        ...

    def taken(self, client: str) -> tuple[tuple[int, str], ...]:
        """Return the rounds, with their kinds, whose message of this client is in the ledger (see `since_last`)."""
        ...

    def submit(self, number: int, kind: str, messages: Sequence[tuple[str, Update]]) -> list[Receipt]:
        """Take a round whole or not at all, for good: messages, receipts, and that it is finished."""
        ...

    def close(self) -> None:
        """Let go of what the book holds."""
        ...


def client_name(node: int) -> str:
    """Return the name that a node's id makes: Flower ties the id to the node's key where nodes log in."""
    return f"node {node}"


def since_last(taken: Sequence[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """Return what a node needs to know of its rounds: the last in which it could add, and those after it.

    A round in which it could add brings the ledger to what the node wants; what came before does not matter then.
    """
    start = max((i for i, (_, kind) in enumerate(taken) if kind == _TRAIN), default=0)
    return tuple(taken[start:])


class MemoryBook:
    """A book for one run, in memory: for tests, and where somebody else keeps the server."""

    def __init__(self, server: Server, names: Mapping[int, str] | None = None) -> None:
        self._server, self._names = server, names or {}
        self._rounds = 0
        self._known: set[str] = set()
        self._taken: dict[str, list[tuple[int, str]]] = {}

    @property
    def server(self) -> Server:
        """The ledger behind its rules."""
        return self._server

    @property
    def rounds(self) -> int:
        """How many rounds are finished."""
        return self._rounds

    def head(self) -> Head:
        """Return the public head."""
        return self._server.head()

    def name(self, node: int) -> str:
        """Return the name that was given for a node, else the one that its id makes."""
        return self._names.get(node, client_name(node))

    def knows(self, client: str) -> bool:
        """Return whether this client has ever been answered."""
        return client in self._known

    def taken(self, client: str) -> tuple[tuple[int, str], ...]:
        """Return the rounds whose message of this client is in the ledger."""
        return since_last(self._taken.get(client, ()))

    def submit(self, number: int, kind: str, messages: Sequence[tuple[str, Update]]) -> list[Receipt]:
        """Take a round."""
        if number != self._rounds + 1:
            raise InputError("number", f"{self._rounds + 1}, the next round", number)
        receipts = self._server.submit_round(messages) if messages else []
        for receipt in receipts:
            self._known.add(receipt.client)
            if receipt.accepted:
                self._taken.setdefault(receipt.client, []).append((number, kind))
        self._rounds = number
        return receipts

    def close(self) -> None:
        """Do nothing: there is nothing to let go of."""
