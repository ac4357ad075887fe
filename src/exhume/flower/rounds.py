"""One round on a Grid: every node is asked, answers are told apart by message id, one submission, one broadcast.

The id of a message is given out by whoever pushed it; which node an answer says it is from counts for nothing. What a
node sent late, twice, in an odd form or not at all is not in the ledger, and the report says so.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from flwr.app import ConfigRecord, MetricRecord, RecordDict

from exhume.errors import InputError, RefusedError
from exhume.flower.book import Book
from exhume.flower.post import Answer, Clock, Postmaster, RoundFailedError, Status
from exhume.flower.records import ABOUT, VERSION, News, news_records, update_of
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.server import Receipt
from exhume.protocol.summary import Update

__all__ = [
    "ADD",
    "UNLEARN",
    "Answer",
    "Clock",
    "Kind",
    "Postmaster",
    "RoundFailedError",
    "RoundReport",
    "broadcast",
    "digest",
    "play",
]

Kind = Literal["train", "query.unlearn"]
ADD: Kind = "train"
"""A round in which nodes may add and delete."""
UNLEARN: Kind = "query.unlearn"
"""A round in which nodes may only delete."""

_log = logging.getLogger("exhume.flower")


@dataclass(frozen=True)
class RoundReport:
    """What a round did."""

    number: int
    kind: Kind
    answers: tuple[Answer, ...]
    doubles: int = 0
    """Second answers to a message that had one."""
    strays: int = 0
    """Answers to messages of earlier rounds, which came too late."""
    receipts: tuple[Receipt, ...] = ()

    @property
    def taken(self) -> int:
        """How many nodes' messages are in the ledger."""
        return sum(answer.status == "taken" for answer in self.answers)

    def lines(self) -> list[str]:
        """Say it in words, one line for the round and one for each node whose rows are not in the ledger."""
        nothing = sum(a.status == "nothing" for a in self.answers)
        lines = [
            f"round {self.number} ({self.kind}): {self.taken} of {len(self.answers)} messages are in the ledger, "
            f"{nothing} had nothing to change"
        ]
        for a in self.answers:
            if a.status not in ("taken", "nothing"):
                why = f": {a.reason}" if a.reason else ""
                lines.append(f"round {self.number}: {a.client} {a.status}, its rows are not in the ledger{why}")
        if self.doubles:
            lines.append(f"round {self.number}: {self.doubles} second answers were left out")
        if self.strays:
            lines.append(
                f"round {self.number}: {self.strays} answers to earlier rounds came too late and were left out"
            )
        return lines


def digest(ledger: Ledger) -> str:
    """Return the SHA-256 of the retained totals, gram then moment, as little-endian float64."""
    total = ledger.summary
    return hashlib.sha256(total.gram.astype("<f8").tobytes() + total.moment.astype("<f8").tobytes()).hexdigest()


def play(post: Postmaster, book: Book, nodes: Sequence[int], *, kind: Kind = ADD) -> RoundReport:
    """Play the next round up to its broadcast: ask, and submit what came as one logical submission.

    Raises
    ------
    RoundFailedError
        If no node gave an answer that could be used.
    """
    number = book.rounds + 1
    d, c = book.server.shape
    asked = post.ask({node: _turn(book, node, number, kind) for node in nodes}, kind, str(number))
    answers, found = asked.sort(lambda records: _checked(update_of(records, number, d=d, c=c), kind), book.name)
    if not found:
        for answer in answers:
            _log.error("round %d: %s %s: %s", number, answer.client, answer.status, answer.reason)
        raise RoundFailedError(f"round {number}: none of {len(answers)} nodes gave an answer that could be used")
    changes = [(book.name(node), update) for node, update in sorted(found.items()) if update is not None]
    receipts = book.submit(number, kind, changes)
    told = {receipt.client: receipt for receipt in receipts}
    settled = tuple(_settled(answer, told.get(answer.client)) for answer in answers)
    report = RoundReport(number, kind, settled, asked.doubles, asked.strays, tuple(receipts))
    for line in report.lines():
        _log.info(line)
    return report


def broadcast(
    post: Postmaster, book: Book, nodes: Sequence[int], receipts: Sequence[Receipt] = ()
) -> dict[int, dict[str, float]]:
    """Send the public head to every node, each with its own receipt; returns what those that heard it measured.

    Where a release rule has let no head out yet, nothing is sent.
    """
    try:
        head = book.head()
    except RefusedError:
        return {}
    number = book.rounds
    own = {receipt.client: receipt for receipt in receipts}
    news = {node: _news(number, head, own.get(book.name(node))) for node in nodes}
    asked = post.ask({node: news_records(told) for node, told in news.items()}, "evaluate", str(number))
    answers, found = asked.sort(_metrics, book.name)
    for answer in answers:
        if answer.status != "nothing":
            _log.warning("round %d: %s did not confirm the head: %s", number, answer.client, answer.reason)
    if not found:
        raise RoundFailedError(f"round {number}: none of {len(nodes)} nodes heard the head")
    return found


def _turn(book: Book, node: int, number: int, kind: Kind) -> RecordDict:
    """Write what a node is told when it is asked: public sizes, and which of its own messages are in the ledger."""
    server, name = book.server, book.name(node)
    d, c = server.shape
    asks = sorted({need for rule in server.admission for need in rule.asks})
    taken = book.taken(name)
    told: dict[str, Any] = {"version": VERSION, "kind": "turn", "round": number, "d": d, "c": c, "asks": asks}
    told |= {"gamma": server.ledger.gamma, "grid": server.grid or 0.0, "unlearn": kind == UNLEARN}
    told |= {"taken": [n for n, _ in taken], "unlearned": [of == UNLEARN for _, of in taken]}
    return RecordDict({ABOUT: ConfigRecord(told)})


def _checked(update: Update | None, kind: Kind) -> Update | None:
    if update is not None and kind == UNLEARN and not update.add.is_zero:
        raise InputError("add", "left out where only deletions were asked for", "a summary")
    return update


def _settled(answer: Answer, receipt: Receipt | None) -> Answer:
    if receipt is None:
        return answer
    status: Status = "taken" if receipt.accepted else "refused"
    return Answer(answer.node, answer.client, answer.message, status, receipt.reason)


def _metrics(records: RecordDict) -> dict[str, float]:
    found = records.get("metrics", MetricRecord())
    if not isinstance(found, MetricRecord):
        raise InputError("metrics", "a metric record", type(found).__name__)
    return {str(name): float(value) for name, value in found.items() if isinstance(value, int | float)}


def _news(number: int, head: Head, receipt: Receipt | None) -> News:
    return News(number, head) if receipt is None else News(number, head, receipt.accepted, receipt.reason)
