"""What release rules share: their place in a chain, their configuration, their saved state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from exhume.defence._state import pack, unpack
from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.rules import Heads, Occasion, ReleaseRule

__all__ = ["STAGES", "Rule", "at_least", "positive", "stage_of"]

STAGES = ("gate", "mask", "shape", "noise", "budget", "precision")
"""The order of rules in a chain: whether a head goes out, the totals it follows from, what of it, the noise on it,
whether its cost is within the budget, and in what number format."""


class Rule(ReleaseRule):
    """A release rule with a name, a stage, and a state that can be saved."""

    name: ClassVar[str] = ""
    stage: ClassVar[str] = "gate"

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments as plain values."""
        return {}

    def values(self) -> dict[str, Any]:
        """Return what the rule remembers as plain values."""
        return {}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Take over what `values` returned."""

    def save(self) -> bytes:
        """Write name, configuration and memory."""
        return pack(self.name, self.configuration(), self.values(), {})

    def load(self, data: bytes) -> None:
        """Take over a saved memory; one of another rule or configuration is refused by name."""
        self.restore(unpack(data, self.name, self.configuration()).values)

    def __repr__(self) -> str:
        shown = ((k, v) for k, v in self.configuration().items() if k != "key")
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in shown)})"


class Pending(Rule):
    """A gate that looks at what has changed since the last head went out; the first head always passes.

    A message without effect is no change: otherwise empty messages would open any gate.
    """

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

    def values(self) -> dict[str, Any]:
        """Return the changes and clients since the last head."""
        return {"started": self._started, "changes": self._changes, "clients": list(self._clients)}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Take over the changes and clients since the last head."""
        self._started, self._changes = bool(values["started"]), int(values["changes"])
        self._clients = tuple(str(client) for client in values["clients"])


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
