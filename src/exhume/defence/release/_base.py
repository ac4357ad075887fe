"""What release rules share: their place in a chain, and what gates remember."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from exhume.defence.memory import Memory, Saveable, client_names
from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.rules import Heads, Occasion, ReleaseRule

__all__ = ["STAGES", "Rule", "at_least", "positive", "stage_of"]

STAGES = ("gate", "mask", "shape", "noise", "budget", "precision")
"""The order of rules in a chain: whether a head goes out, the totals it follows from, what of it, the noise on it,
whether its cost is within the budget, and in what number format."""


class Rule(Saveable, ReleaseRule):
    """A release rule with a name, a stage, and a memory that can be saved."""

    name: ClassVar[str] = ""
    stage: ClassVar[str] = "gate"
    reads: ClassVar[str] = "message"
    """What withholding a head may depend on (`exhume.defence.interference`); most rules withhold none."""


class Pending(Rule):
    """A gate that looks at what has changed since the last head went out; the first head always passes.

    A message without effect is no change: otherwise empty messages would open any gate.
    """

    reads = "everyone"
    counts_changes: ClassVar[bool] = False
    """Whether enough changes of one client alone open it."""

    def __init__(self) -> None:
        self._started = False
        self._changes = 0
        self._clients: tuple[str, ...] = ()

    @abstractmethod
    def opens(self, changes: int, clients: tuple[str, ...]) -> bool:
        """Say whether a head may go out after so many changes by these distinct clients."""

    def _now(self, occasion: Occasion) -> tuple[int, tuple[str, ...]]:
        pairs = zip(occasion.clients, occasion.updates, strict=True)
        moved = tuple(client for client, update in pairs if not update.net.is_zero)
        return self._changes + bool(moved), tuple(dict.fromkeys(self._clients + moved))

    def release(self, head: Head, occasion: Occasion) -> Head | None:
        """Pass the head, or withhold it."""
        return head if not self._started or self.opens(*self._now(occasion)) else None

    def record(self, released: Head | None, occasion: Occasion) -> None:
        """Start again after a head; else remember the change."""
        changes, clients = self._now(occasion)
        self._started |= released is not None
        self._changes, self._clients = (0, ()) if released is not None else (changes, clients)

    def remembered(self) -> Memory:
        """Return the changes and clients since the last head."""
        clients = client_names(self._clients)
        return Memory({"started": self._started, "changes": self._changes, "clients": clients})

    def restore(self, memory: Memory) -> None:
        """Take over the changes and clients since the last head."""
        self._started, self._changes = bool(memory.values["started"]), int(memory.values["changes"])
        self._clients = tuple(memory.values["clients"])


def stage_of(rule: ReleaseRule) -> str | None:
    """Return a rule's stage; None for a rule that does not say."""
    return "precision" if isinstance(rule, Heads) else getattr(rule, "stage", None)


def at_least(field: str, value: int, least: int) -> int:
    """Return a whole number that is large enough."""
    if isinstance(value, bool) or int(value) != value or value < least:
        raise InputError(field, f"a whole number, at least {least}", value)
    return int(value)


def positive(field: str, value: float) -> float:
    """Return a finite number above 0."""
    if not 0 < value < float("inf"):
        raise InputError(field, "a finite number above 0", value)
    return float(value)
