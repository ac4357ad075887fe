"""The post between a ServerApp and its nodes: who was asked, what came back, and what is to be made of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from flwr.app import Message, RecordDict

from exhume.errors import ExhumeError, InputError

__all__ = ["Answer", "Clock", "Mailing", "Postmaster", "RoundFailedError", "Status", "one_line"]

Status = Literal["taken", "nothing", "refused", "malformed", "failed", "late", "not sent"]

_MOST_REASON = 300


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


def one_line(text: object) -> str:
    """Return what a node said as one short printable line: a log must not be written by those whom it is about."""
    line = "".join(c if c.isprintable() else " " for c in str(text)[: 2 * _MOST_REASON])
    return line if len(line) <= _MOST_REASON else f"{line[:_MOST_REASON]} ..."


def _judge(answer: Message | Exception | None, read: Callable[[RecordDict], Any]) -> tuple[Status, str | None, Any]:
    if answer is None:
        return "late", "no answer in time", None
    if isinstance(answer, Exception):
        return "malformed", one_line(f"{type(answer).__name__}: {answer}"), None
    if not answer.has_content():
        told = answer.error if answer.has_error() else None
        return "failed", "no content" if told is None else one_line(f"error {told.code}: {told.reason}"), None
    try:
        return "nothing", None, read(answer.content)
    except ValueError as error:
        return "malformed", one_line(error), None
