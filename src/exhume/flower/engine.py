"""A server behind Flower rounds in this process: what is submitted goes out as a node's answer to its turn.

For evaluators: `exhume.simulate` plays a federation on it as on any other server. Every client is a node of a
`LocalGrid`; every round asks all of them, sums what they send as one submission, and broadcasts the head to all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flwr.clientapp import ClientApp

from exhume.errors import WireError
from exhume.flower.book import MemoryBook
from exhume.flower.client import Turn, client_app
from exhume.flower.local import LocalGrid
from exhume.flower.records import News
from exhume.flower.rounds import Postmaster, broadcast, play
from exhume.protocol.head import Head
from exhume.protocol.server import Receipt, Server
from exhume.protocol.summary import Update

__all__ = ["FlowerServer"]


class FlowerServer(Server):
    """A server whose submissions travel as Flower messages. Its ledger, rules and counts are those of any server.

    Make one with `around`. Copies are independent.
    """

    _grid: _Nodes | None = None
    _names: tuple[str, ...] = ()

    @classmethod
    def around(cls, server: Server, names: Iterable[str] = ()) -> FlowerServer:
        """Put a server behind Flower rounds; it must not be used beside that any more.

        Parameters
        ----------
        server
            The ledger behind its rules.
        names
            The clients, in the order in which their messages are summed; those that come up later join at the end.
        """
        made = object.__new__(cls)
        made.__setstate__(server.__getstate__())
        made._names = tuple(dict.fromkeys(names))
        return made

    def submit_round(self, messages: Iterable[tuple[str, Update]]) -> list[Receipt]:
        """Let the clients' nodes answer one round with these updates, all other nodes with nothing."""
        pending = list(messages)
        if not pending or len({client for client, _ in pending}) < len(pending):
            return super().submit_round(pending)  # which says what is wrong
        with self._lock:
            nodes = self._joined([client for client, _ in pending])
            nodes.outbox = dict(pending)
            report = play(nodes.post, nodes.book(self), nodes.ids)
            for answer in report.answers:
                if answer.status in ("malformed", "failed"):  # a size that no ledger takes never becomes a message
                    raise WireError("update", "one that travels", answer.reason)
            broadcast(nodes.post, nodes.book(self), nodes.ids, report.receipts)
            own = {receipt.client: receipt for receipt in report.receipts}
            return [self._as_heard(own[client], nodes) for client, _ in pending]

    def _as_heard(self, receipt: Receipt, nodes: _Nodes) -> Receipt:
        """Return a receipt as its node heard of it."""
        news = nodes.heard.get(receipt.client)
        if news is None:
            return receipt
        head = None if receipt.head is None else news.head
        return replace(receipt, accepted=news.taken, reason=news.refused, head=head)

    def head(self) -> Head:
        """Return the head as the nodes heard it; the first call on a fresh server broadcasts the baseline."""
        with self._lock:
            own, nodes = self.own_head(), self._joined([])
            if not nodes.ids:
                return own
            first = nodes.names[nodes.ids[0]]
            if first not in nodes.heard or nodes.heard[first].head.serial != own.serial:
                broadcast(nodes.post, nodes.book(self), nodes.ids)
            return nodes.heard[first].head

    def own_head(self) -> Head:
        """Return the head as the server has it."""
        return super().head()

    def _joined(self, clients: list[str]) -> _Nodes:
        if self._grid is None or not set(clients) <= set(self._names):
            self._names = tuple(dict.fromkeys([*self._names, *clients]))
            self._grid = _Nodes(self._names)
        return self._grid

    def take(self, messages: Sequence[tuple[str, Update]]) -> list[Receipt]:
        """Take what has arrived."""
        return super().submit_round(messages)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_grid": None}  # nodes keep nothing between rounds


class _Nodes:
    """The nodes of a server: what each is about to send, and what each heard last."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names: Mapping[int, str] = {2 + i: name for i, name in enumerate(names)}
        self.ids = list(self.names)
        self.outbox: dict[str, Update] = {}
        self.heard: dict[str, News] = {}
        self.post = Postmaster(LocalGrid({node: self._app(name) for node, name in self.names.items()}))
        self._book: MemoryBook | None = None

    def _app(self, name: str) -> ClientApp:
        party = _Courier(self, name)
        return client_app(lambda _: party, dense=True)  # bitwise what a call would bring

    def book(self, server: FlowerServer) -> MemoryBook:
        """Return the book of this server's rounds."""
        if self._book is None:
            self._book = _ServerBook(server, self.names)
        return self._book


class _ServerBook(MemoryBook):
    """A book of a server that sends through Flower: what arrives is for the server itself."""

    def __init__(self, server: FlowerServer, names: Mapping[int, str]) -> None:
        super().__init__(server, names)
        self._behind = server

    def head(self) -> Head:
        """Return the head that is about to be heard."""
        return self._behind.own_head()

    def submit(self, number: int, kind: str, messages: Sequence[tuple[str, Update]]) -> list[Receipt]:
        """Take a round; nobody is told of earlier ones."""
        self._rounds = number
        return self._behind.take(messages) if messages else []


class _Courier:
    """A node that sends what lies in its outbox and keeps what it hears."""

    def __init__(self, nodes: _Nodes, name: str) -> None:
        self._nodes, self._name = nodes, name

    def contribute(self, turn: Turn) -> Update | None:
        """Send what there is, once."""
        return self._nodes.outbox.pop(self._name, None)

    def hear(self, news: News) -> Mapping[str, float]:
        """Keep it."""
        self._nodes.heard[self._name] = news
        return {}
