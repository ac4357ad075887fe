"""The interfaces where defences plug into a server, and the paper's own release."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from exhume.errors import InputError
from exhume.protocol.head import Head, round_to, significant_bits
from exhume.protocol.ledger import Ledger
from exhume.protocol.summary import Summary, Update

__all__ = ["Accountant", "AdmissionRule", "Counts", "Exposure", "Heads", "Occasion", "ReleaseRule", "Undo", "keep"]

Undo = Callable[[], None]
"""Puts back what a step that failed has changed."""


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


def keep(part: object, /, **copies: object) -> Undo:
    """Return what gives a part its attributes back: these copies, and the others as they are now.

    Copies are needed of what changes in place: lists, sets, tables. What is only ever replaced needs none.
    """
    kept = part.__dict__ | copies

    def undo() -> None:
        part.__dict__.clear()
        part.__dict__.update(kept)

    return undo


class _Part(ABC):  # noqa: B024 - what is abstract differs by kind
    """A part of a server that is asked at every step and may remember what it heard."""

    name: ClassVar[str] = ""
    """What configurations, receipts and reports call it."""
    about: ClassVar[str] = ""
    """It in one line, for lists."""

    def check_size(self, d: int, c: int) -> None:  # noqa: B027 - most suit every ledger
        """Raise an `InputError` if this part cannot serve a ledger of this size. Asked once, when a server is built."""

    def check_start(self, total: Summary) -> None:  # noqa: B027 - most begin with anything
        """Refuse, by an error, what a new server's ledger holds before anybody sent anything."""

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Return what takes back whatever the step that begins now, by these clients, makes this part remember.

        A step counts whole or not at all: the server takes it back everywhere if anything in it raises. The default
        keeps a deep copy of all attributes, which is right for every part that can be copied and costs as much as it
        remembers, at every step. A part whose memory grows should keep less; one that holds others must ask them.
        """
        try:
            return keep(self, **copy.deepcopy(self.__dict__))
        except (TypeError, AttributeError) as error:
            raise InputError(
                self.name or type(self).__name__, "copyable, or with a checkpoint of its own", error
            ) from None

    def settle(self) -> None:  # noqa: B027 - most leave nothing
        """Do what the step that has just counted left to do. Its sender waits for it, and nobody after it does."""


class AdmissionRule(_Part):
    """Accepts or refuses updates before they touch the ledger."""

    @property
    def keeps_positive(self) -> bool:
        """Whether all that passes is rows, and deletions rows that came: then no message can make the sum singular."""
        return False

    @property
    def asks(self) -> frozenset[str]:
        """What a message must carry to pass this rule: of ``"tag"`` and ``"rows"``, by default nothing."""
        return frozenset()

    @abstractmethod
    def refuse(self, update: Update, client: str) -> str | None:
        """Return the reason to refuse this update from this client, or None to let it pass. Changes nothing."""

    def refuse_in_round(self, update: Update, client: str, passed: Sequence[str]) -> str | None:
        """Do the same where messages of other clients passed earlier in the same round, and are not recorded yet."""
        return self.refuse(update, client)

    def taken(self, update: Update, client: str) -> Update:
        """Return what the ledger takes of an update that all rules passed: all of it, unless this rule sets some aside.

        Its sender gets the same receipt either way: a refusal would tell it of what others have sent. Changes nothing.
        """
        return update

    def record(self, update: Update, client: str) -> None:
        """Remember an update that all rules passed and the ledger applied, as it came."""

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Keep a copy of what the rule remembers; nothing where it hears of nothing."""
        return _nothing if type(self).record is AdmissionRule.record else super().checkpoint(clients)


class ReleaseRule(_Part):
    """Decides what head, if any, goes out after an accepted change."""

    @property
    def makes_heads(self) -> bool:
        """Whether heads are made of the occasion alone. The head that is passed then has no numbers (NaN)."""
        return False

    @abstractmethod
    def release(self, head: Head, occasion: Occasion) -> Head | None:
        """Return the head to broadcast, or None to withhold it."""

    def record(self, released: Head | None, occasion: Occasion) -> None:
        """Remember what went out in the end; None where this rule or somebody after it withheld the head."""


@dataclass(frozen=True)
class Exposure:
    """What one client could know of the hidden state from its own messages and the heads it saw."""

    value: float
    """From 0 (nothing) to 1 (the state is identifiable)."""
    meaning: str
    """The same in words."""


class Accountant(_Part):
    """Keeps what clients could know, and has the last word on a release."""

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


def _nothing() -> None:
    """Take back nothing."""
