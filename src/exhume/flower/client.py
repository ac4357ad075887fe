"""The ClientApp: a node that adds its rows, asks for the deletion of some, and evaluates the head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from exhume.errors import InputError, WireError
from exhume.flower.records import News, about, news_of, update_records, whole
from exhume.numerics import Rows
from exhume.protocol.grid import snap
from exhume.protocol.message import itemise
from exhume.protocol.summary import Update

__all__ = ["Holder", "Party", "Turn", "client_app"]


@dataclass(frozen=True)
class Turn:
    """What a node is told when it is asked for a round."""

    number: int
    d: int
    c: int
    gamma: float
    grid: float | None
    """The step to which features are snapped in bit-exact mode."""
    unlearn: bool
    """Whether only deletions are asked for."""
    asks: frozenset[str]
    """What messages must carry: of ``"tag"`` and ``"rows"``."""
    taken: tuple[tuple[int, bool], ...]
    """The rounds whose message of this node is in the ledger: number, and whether only deletions were asked for."""

    @classmethod
    def read(cls, records: RecordDict) -> Turn:
        """Read a turn; anything else is a `WireError`."""
        told = about(records, "turn")
        grid, gamma = told.get("grid"), told.get("gamma")
        taken, unlearned, asks = (told.get(name) for name in ("taken", "unlearned", "asks"))
        if not (isinstance(grid, float) and isinstance(gamma, float) and gamma > 0 and grid >= 0):
            raise WireError("gamma, grid", "a number above 0 and one of at least 0", f"{gamma}, {grid}")
        lists = [value for value in (taken, unlearned, asks) if isinstance(value, list)]
        if len(lists) < 3 or len(lists[0]) != len(lists[1]):
            raise WireError("taken, unlearned, asks", "lists, the first two of one length", f"{taken}, {unlearned}")
        return cls(
            whole(told, "round", 1),
            whole(told, "d", 1),
            whole(told, "c", 1),
            gamma,
            grid or None,
            bool(told.get("unlearn")),
            frozenset(str(need) for need in lists[2]),
            tuple((int(number), bool(only)) for number, only in zip(lists[0], lists[1], strict=True)),
        )


class Party(Protocol):
    """Who is behind a node."""

    def contribute(self, turn: Turn) -> Update | None:
        """Return what this node adds and deletes in a round, None for nothing."""
        ...

    def hear(self, news: News) -> Mapping[str, float]:
        """Take a broadcast head, and what became of this node's message; returns what was measured on the head."""
        ...


def client_app(party: Callable[[Context], Party], *, dense: bool = False) -> ClientApp:
    """Return a ClientApp: ``train`` and ``query.unlearn`` answer with an update, ``evaluate`` hears the head.

    Parameters
    ----------
    party
        Makes who is behind the node, for every message anew.
    dense
        Whether grams are always sent written out. A bit-exact server gets them so in any case.
    """
    app = ClientApp()

    def contribute(message: Message, context: Context) -> Message:
        turn = Turn.read(message.content)
        made = party(context).contribute(turn)
        written = update_records(made, turn.number, dense=dense or turn.grid is not None)
        return Message(written, reply_to=message)

    def evaluate(message: Message, context: Context) -> Message:
        measured = dict(party(context).hear(news_of(message.content)))
        return Message(RecordDict({"metrics": MetricRecord(measured)}), reply_to=message)

    app.train()(contribute)
    app.query("unlearn")(contribute)
    app.evaluate()(evaluate)
    return app


class Holder:
    """An honest node: it has rows, wants some of them in the ledger, and changes its mind from round to round.

    It remembers nothing. What is in the ledger follows from the rounds that the server says it took; a message that was
    lost is made up for in the next round.

    Parameters
    ----------
    features, labels, classes
        All rows that the node has.
    wanted
        The row numbers that it wants in the ledger after a round, by the round's number.
    test
        Features and labels to evaluate a head on; None measures on its own rows.
    """

    def __init__(
        self,
        features: Any,
        labels: Any,
        classes: int,
        wanted: Callable[[int], Sequence[int] | Rows],
        test: tuple[Any, Any] | None = None,
    ) -> None:
        self._features, self._labels = np.asarray(features, dtype=np.float64), np.asarray(labels)
        self._classes, self._wanted, self._test = classes, wanted, test

    def holds(self, turn: Turn) -> set[int]:
        """Return the rows that are in the ledger before a round."""
        held: set[int] = set()
        for number, only in turn.taken:
            wanted = {int(row) for row in self._wanted(number)}
            held = held & wanted if only else wanted
        return held

    def contribute(self, turn: Turn) -> Update | None:
        """Return the way from what is in the ledger to what the node wants there."""
        if (turn.d, turn.c) != (self._features.shape[1], self._classes):
            have = f"d = {self._features.shape[1]}, c = {self._classes}"
            raise InputError("turn", f"of {have}, as this node's rows", f"d = {turn.d}, c = {turn.c}")
        held, wanted = self.holds(turn), {int(row) for row in self._wanted(turn.number)}
        coming = [] if turn.unlearn else sorted(wanted - held)
        leaving = sorted(held - wanted)
        if not coming and not leaving:
            return None
        made = itemise(turn.c, add=self._rows(coming, turn), delete=self._rows(leaving, turn))
        return made if "rows" in turn.asks else Update(made.add, made.delete)

    def _rows(self, rows: list[int], turn: Turn) -> tuple[Any, Any] | None:
        return (snap(self._features[rows], turn.grid), self._labels[rows]) if rows else None

    def hear(self, news: News) -> Mapping[str, float]:
        """Measure the head's accuracy."""
        features, labels = (self._features, self._labels) if self._test is None else self._test
        return {"accuracy": news.head.accuracy(features, labels), "rows": float(len(labels))}
