"""The interfaces where defences plug into a server, and the paper's own release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

from exhume.protocol.head import Head, round_to, significant_bits
from exhume.protocol.ledger import Ledger
from exhume.protocol.summary import Update

__all__ = ["Accountant", "AdmissionRule", "Counts", "Exposure", "Heads", "Occasion", "ReleaseRule"]


@dataclass(frozen=True)
class Counts:
    """What the paper counts separately, from the server's side."""

    submissions: int = 0
    """Logical submissions accepted: one net change each, whatever number of messages made it."""
    messages: int = 0
    """Client messages accepted."""
    pairs: int = 0
    """Constituent add/delete pairs inside them."""
    broadcasts: int = 0
    """Heads released."""
    refused: int = 0
    """Messages that an admission rule refused."""


@dataclass(frozen=True)
class Occasion:
    """The circumstances of a possible release: who moved what, and how often heads went out before."""

    ledger: Ledger
    clients: tuple[str, ...]
    updates: tuple[Update, ...]
    counts: Counts


class AdmissionRule(ABC):
    """Accepts or refuses updates before they touch the ledger."""

    name: ClassVar[str] = ""
    """What configurations, receipts and reports call the rule."""
    about: ClassVar[str] = ""
    """The rule in one line, for lists."""

    @property
    def asks(self) -> frozenset[str]:
        """What a message must carry to pass this rule: of ``"tag"`` and ``"rows"``, by default nothing."""
        return frozenset()

    @abstractmethod
    def refuse(self, update: Update, client: str) -> str | None:
        """Return the reason to refuse this update from this client, or None to let it pass. Changes nothing."""

    def record(self, update: Update, client: str) -> None:  # noqa: B027 - stateless rules need not remember
        """Remember an update that all rules passed and the ledger applied."""


class ReleaseRule(ABC):
    """Decides what head, if any, goes out after an accepted change."""

    name: ClassVar[str] = ""
    """What configurations and reports call the rule."""
    about: ClassVar[str] = ""
    """The rule in one line, for lists."""

    @abstractmethod
    def release(self, head: Head, occasion: Occasion) -> Head | None:
        """Return the head to broadcast, or None to withhold it."""

    def record(self, released: Head | None, occasion: Occasion) -> None:  # noqa: B027 - stateless rules need not remember
        """Remember what went out in the end; None where this rule or somebody after it withheld the head."""


@dataclass(frozen=True)
class Exposure:
    """What one client could know of the hidden state from its own messages and the heads it saw."""

    value: float
    """From 0 (nothing) to 1 (the state is identifiable)."""
    meaning: str
    """The same in words."""


class Accountant(ABC):
    """Keeps what clients could know, and has the last word on a release."""

    name: ClassVar[str] = ""
    """What configurations and reports call the accountant."""
    about: ClassVar[str] = ""
    """The accountant in one line, for lists."""

    @abstractmethod
    def review(self, released: Head, exact: Head, occasion: Occasion) -> Head | None:
        """Return the head that may go out, a coarser one, or None to withhold it. Changes nothing."""

    @abstractmethod
    def observe(self, released: Head | None, exact: Head, occasion: Occasion) -> None:
        """Remember an accepted change and what went out after it; None where nothing did."""

    @abstractmethod
    def exposure(self, client: str) -> Exposure:
        """Return what a client could know by now."""


class Heads(ReleaseRule):
    """Release every head, rounded to a number format: the paper's server. Ledger and solve stay float64.

    Parameters
    ----------
    precision
        ``"float64"``, ``"float32"``, ``"float16"``, ``"bfloat16"`` or ``"Nbits"``.
    """

    name = "heads"
    about = "every head, rounded to a number format"

    def __init__(self, precision: str = "float64") -> None:
        significant_bits(precision)
        self.precision = precision

    def release(self, head: Head, occasion: Occasion) -> Head:
        """Return the rounded head, always."""
        return replace(head, weights=round_to(head.weights, self.precision), precision=self.precision)

    def __repr__(self) -> str:
        return f"Heads('{self.precision}')"
