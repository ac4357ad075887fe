"""All that a client can touch of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from exhume.protocol.head import Head
from exhume.protocol.summary import Update

__all__ = ["ServiceTarget", "SettlingTarget", "Target"]


@runtime_checkable
class Target(Protocol):
    """A server as one client sees it: its current head, and a place to submit updates."""

    def head(self) -> Head:
        """Return the head that the server last released."""
        ...

    def submit(self, update: Update) -> Head:
        """Submit an update and return the head that is public afterwards.

        It applies at most once. Where an answer is lost, raise: an adapter that sends the same update again without
        knowing whether it arrived applies it twice, and nobody can tell how often.

        A refused update raises `exhume.errors.RefusedError`. Where the server withholds a release, the previous head
        comes back, with its old serial.
        """
        ...


@runtime_checkable
class SettlingTarget(Protocol):
    """A target that knows its messages by keys: a lost answer can be had again, and the message counts once."""

    def again(self, update: Update, key: str) -> Head:
        """Send an update under a key that may have arrived before; returns as `Target.submit` does."""
        ...

    def applied(self, key: str) -> bool:
        """Say whether what was sent under a key counts."""
        ...


class ServiceTarget(SettlingTarget, Target, Protocol):
    """A target that also says what messages must be like, and answers each with a receipt."""

    @property
    def shape(self) -> tuple[int, int]:
        """Feature dimensions and classes (d, c)."""
        ...

    @property
    def grid(self) -> float | None:
        """The grid step of a bit-exact ledger, or None."""
        ...

    @property
    def asks(self) -> tuple[str, ...]:
        """What every message must carry: of ``"rows"`` and ``"tag"``."""
        ...

    @property
    def bounds(self) -> Mapping[str, float] | None:
        """What honest rows keep to: ``longest``, ``message_rows`` and ``client_rows``; None where nothing is asked."""
        ...

    @property
    def most_rows(self) -> int:
        """Most rows of one message."""
        ...

    def receipt_of(self, update: Update, key: str) -> Mapping[str, Any]:
        """Send an update under a key and return its receipt: ``accepted``, ``code``, ``serial`` of the broadcast."""
        ...
