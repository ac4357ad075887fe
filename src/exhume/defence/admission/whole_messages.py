"""Whole messages: a client may take back a message that it sent, bit for bit, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from exhume.defence.admission._numbers import content
from exhume.defence.admission._standing import StandingBlocks
from exhume.defence.memory import Memory, Saveable
from exhume.protocol import AdmissionRule, Update
from exhume.protocol.rules import Undo

__all__ = ["WholeMessages"]


class WholeMessages(Saveable, AdmissionRule):
    """Refuses deletions that are not, number for number, one of the same client's standing additions.

    For servers that see sums alone and keep no matrix per client: 32 bytes stand for a message. A client that wants
    one record gone deletes the message that brought it and adds the rest, both in one message. What is left of every
    client is then a sum of messages that passed the other rules: positive semidefinite if they were. Numbers must come
    back as they were sent; on a grid (`Ledger` with ``grid``) every machine computes the same ones.
    """

    name = "whole-messages"
    about = "deletions are messages that the same client sent, bit for bit"
    reads: ClassVar[str] = "client"

    def __init__(self) -> None:
        self._standing = StandingBlocks()

    def refuse(self, update: Update, client: str) -> str | None:
        """Look the deletion up among the client's standing additions."""
        if update.delete.is_zero or self._standing.holds(client, Counter([content(update.delete)])):
            return None
        return f"{self.name}: this deletion is no standing message of '{client}', as it was sent"

    def record(self, update: Update, client: str) -> None:
        """Retire what was deleted, note what was added."""
        if not update.delete.is_zero:
            self._standing.retire(client, Counter([content(update.delete)]))
        if not update.add.is_zero:
            self._standing.note(client, Counter([content(update.add)]))

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Take back what the step notes and retires."""
        return self._standing.mark()

    def remembered(self) -> Memory:
        """Return the digests of standing messages."""
        return Memory({"standing": self._standing.remembered()})

    def restore(self, memory: Memory) -> None:
        """Take over the digests."""
        self._standing = StandingBlocks.restored(memory.values["standing"])

    def __repr__(self) -> str:
        return "WholeMessages()"


RULES = (WholeMessages,)
