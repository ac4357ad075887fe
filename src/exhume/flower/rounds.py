"""One round on a Grid: every node is asked, answers are told apart by message id, one submission, one broadcast.

The id of a message is given out by whoever pushed it; which node an answer says it is from counts for nothing. What a
node sent late, twice, in an odd form or not at all is not in the ledger, and the report says so.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict

from exhume.errors import ExhumeError, InputError, RefusedError
from exhume.flower.book import Book
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

Status = Literal["taken", "nothing", "refused", "malformed", "failed", "late", "not sent"]
_FAILED = {"malformed", "failed", "late", "not sent"}
_log = logging.getLogger("exhume.flower")


class RoundFailedError(ExhumeError):
    """A round in which no node gave an answer that could be used. The ledger is as before."""


@dataclass(frozen=True)
class Clock:
    """How long a round waits for nodes, and how often it looks, in seconds."""

    timeout: float = 60.0
    """For answers."""
    pause: float = 0.2
    """Between two looks."""
    patience: float = 180.0
    """For nodes that are not there: Flower refuses one that starts again for about a minute."""

    def __post_init__(self) -> None:
        for name in ("timeout", "pause", "patience"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(name, "a finite number of seconds above 0", getattr(self, name))


@dataclass(frozen=True)
class Answer:
    """What came of asking one node."""

    node: int
    client: str
    """The name under which rules know the node."""
    message: str
    """The id of the message that asked."""
    status: Status
    reason: str | None = None


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


class Postmaster:
    """Asks nodes and sorts what comes back, over the rounds of one run.

    Parameters
    ----------
    grid
        Flower's way to the nodes.
    clock
        How long to wait.
    """

    def __init__(self, grid: Any, clock: Clock | None = None) -> None:
        self.grid, self.clock = grid, clock or Clock()
        self._open: set[str] = set()
        """Messages of earlier rounds that nobody has answered."""

    def nodes(self) -> list[int]:
        """Return the nodes that are there, in order of their ids."""
        return sorted(int(node) for node in self.grid.get_node_ids())

    def gather(self, least: int) -> list[int]:
        """Wait until so many nodes are there."""
        end = time.monotonic() + self.clock.patience
        while len(found := self.nodes()) < least:
            if time.monotonic() > end:
                raise RoundFailedError(f"{least} nodes must be there; got {len(found)} in {self.clock.patience:g} s")
            time.sleep(self.clock.pause)
        return found

    def ask(self, contents: Mapping[int, RecordDict], kind: str, group: str) -> Mailing:
        """Send each node its message and wait for the answers, or until the time is up."""
        ttl = self.clock.timeout + 60.0
        messages = [Message(content, node, kind, ttl=ttl, group_id=group) for node, content in sorted(contents.items())]
        given = list(self.grid.push_messages(messages))
        given += [None] * (len(messages) - len(given))  # Flower gives an empty list for what is too large
        ids = dict(zip(sorted(contents), given, strict=True))
        got = Mailing({name: node for node, name in ids.items() if name}, [n for n, name in ids.items() if not name])
        end = time.monotonic() + self.clock.timeout
        while True:
            for name in [*got.missing()]:
                self._pull(name, got)
            if not got.missing() or time.monotonic() > end:
                break
            time.sleep(self.clock.pause)
        for name in [*self._open]:
            if late := len(self._answers(name)):
                got.strays += late
                self._open.discard(name)
        self._open |= set(got.missing())
        return got

    def _pull(self, name: str, got: Mailing) -> None:
        # One id at a time: an answer that Flower cannot read must not take others with it.
        for answer in self._answers(name):
            asked = name if isinstance(answer, Exception) else answer.metadata.reply_to_message_id
            if asked not in got.ids:
                got.strays += 1
            elif asked in got.answers:
                got.doubles += 1
            else:
                got.answers[asked] = answer

    def _answers(self, name: str) -> Sequence[Message | Exception]:
        try:
            return list(self.grid.pull_messages([name]))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            return [error]


@dataclass
class Mailing:
    """Messages that were sent together, and what came back."""

    ids: dict[str, int]
    """The node of each message."""
    unsent: list[int]
    answers: dict[str, Message | Exception] = field(default_factory=dict)
    doubles: int = 0
    strays: int = 0

    def missing(self) -> list[str]:
        """Return the messages without an answer."""
        return [name for name in self.ids if name not in self.answers]

    def sort(
        self, read: Callable[[RecordDict], Any], name_of: Callable[[int], str]
    ) -> tuple[list[Answer], dict[int, Any]]:
        """Return what came of each node, and what could be read of each that answered."""
        answers = [Answer(node, name_of(node), "", "not sent", "Flower did not take it") for node in self.unsent]
        found: dict[int, Any] = {}
        for name, node in self.ids.items():
            status, reason, value = _judge(self.answers.get(name), read)
            answers.append(Answer(node, name_of(node), name, status, reason))
            if status == "nothing":
                found[node] = value
        return sorted(answers, key=lambda a: a.node), found


def _judge(answer: Message | Exception | None, read: Callable[[RecordDict], Any]) -> tuple[Status, str | None, Any]:
    if answer is None:
        return "late", "no answer in time", None
    if isinstance(answer, Exception):
        return "malformed", f"{type(answer).__name__}: {answer}", None
    if not answer.has_content():
        told = answer.error if answer.has_error() else None
        return "failed", "no content" if told is None else f"error {told.code}: {told.reason}", None
    try:
        return "nothing", None, read(answer.content)
    except ValueError as error:
        return "malformed", str(error), None


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
