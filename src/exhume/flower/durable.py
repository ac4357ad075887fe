"""A book in the service's durable store: a run that was stopped goes on, and ends as one that was not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from exhume.errors import InputError
from exhume.flower.book import client_name, since_last
from exhume.protocol.head import Head
from exhume.protocol.server import Receipt, Server
from exhume.protocol.summary import Update
from exhume.protocol.wire import decode_update, encode_update
from exhume.store import DurableServer, OperatorKey, Sent, ServerSetup, StoredReceipt
from exhume.store.schema import RECEIPTS

__all__ = ["StoreBook", "operator_key"]

_KEY = re.compile(r"flower/([1-9][0-9]{0,17})/([a-z.]+)")


class StoreBook:
    """The rounds of a `DurableServer`.

    A message of round 7 has the key ``flower/7/train``: the store takes one message of a client under a key, so a round
    that is played again cannot count twice. A round in which nobody changed anything leaves no trace, and is played
    again by a run that goes on.

    Parameters
    ----------
    store
        The server; the book's owner closes it.
    """

    def __init__(self, store: DurableServer) -> None:
        self._store = store
        self._rounds = 0
        self._known: set[str] = set()
        self._taken: dict[str, list[tuple[int, str]]] = {}
        wanted = sa.select(RECEIPTS.c.client, RECEIPTS.c.key, RECEIPTS.c.accepted).order_by(RECEIPTS.c.seq)
        with store.engine.connect() as connection:
            for client, key, accepted in connection.execute(wanted):
                if (found := _KEY.fullmatch(key)) is not None:
                    self._note(client, int(found[1]), found[2], accepted)

    @classmethod
    def open(cls, url: str, setup: ServerSetup, key: OperatorKey, **options: Any) -> StoreBook:
        """Open a store, made if it is not there."""
        return cls(DurableServer(url, setup, key, **options))

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    @property
    def store(self) -> DurableServer:
        """The durable server."""
        return self._store

    @property
    def server(self) -> Server:
        """The ledger behind its rules."""
        return self._store.server

    @property
    def rounds(self) -> int:
        """How many rounds are finished."""
        return self._rounds

    def head(self) -> Head:
        """Return the head last broadcast, as it is on the disk."""
        return self._store.head()

    def name(self, node: int) -> str:
        """Return the name that a node's id makes."""
        return client_name(node)

    def knows(self, client: str) -> bool:
        """Return whether this client has ever been answered."""
        return client in self._known

    def taken(self, client: str) -> tuple[tuple[int, str], ...]:
        """Return the rounds whose message of this client is in the ledger."""
        return since_last(self._taken.get(client, ()))

    def submit(self, number: int, kind: str, messages: Sequence[tuple[str, Update]]) -> list[Receipt]:
        """Take a round; returns when its receipts are on the disk."""
        if number != self._rounds + 1:
            raise InputError("number", f"{self._rounds + 1}, the next round", number)
        sent = [_sent(client, f"flower/{number}/{kind}", update) for client, update in messages]
        answers = self._store.commit([sent])[0] if sent else []
        receipts = []
        for answer in answers:
            if not isinstance(answer, StoredReceipt):
                raise answer
            self._note(answer.client, number, kind, answer.accepted)
            head = self._store.published.head if answer.serial is not None else None
            receipts.append(Receipt(answer.client, answer.accepted, answer.reason, head, answer.number, answer.rule))
        self._rounds = number
        return receipts

    def _note(self, client: str, number: int, kind: str, accepted: bool) -> None:
        self._rounds = max(self._rounds, number)
        self._known.add(client)
        if accepted:
            self._taken.setdefault(client, []).append((number, kind))

    def __enter__(self) -> StoreBook:
        return self

    def __exit__(self, *rest: object) -> None:
        self.close()


def _sent(client: str, key: str, update: Update) -> Sent:
    # What the ledger takes is what is on the disk, to the bit: a gram of rows is written as its factor.
    body = encode_update(update)
    return Sent(client, key, body, decode_update(body))


def operator_key(path: str | Path) -> OperatorKey:
    """Return the operator's key in a file, made if there is none."""
    if not Path(path).exists():
        OperatorKey.make().save(path)
    return OperatorKey.load(path)
