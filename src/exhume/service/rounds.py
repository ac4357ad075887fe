"""Which messages are one submission: each by itself, or those of several clients gathered for a while."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from exhume.errors import InputError

__all__ = ["Gathering", "Rounds"]


class _FromClient(Protocol):
    @property
    def client(self) -> str: ...


T = TypeVar("T", bound=_FromClient)


@dataclass(frozen=True)
class Gathering:
    """How rounds are gathered.

    Parameters
    ----------
    seconds
        How long a round stays open after its first message; 0 makes every message a round of its own.
    clients
        How many clients close it early.
    """

    seconds: float = 0.0
    clients: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.seconds <= 3600:
            raise InputError("round.seconds", "from 0 to 3600", self.seconds)
        if not 1 <= self.clients <= 10_000:
            raise InputError("round.clients", "from 1 to 10000", self.clients)


@dataclass
class Rounds(Generic[T]):
    """Messages on their way to the ledger, in order. A client has one place in a round; its next message waits."""

    gathering: Gathering
    _waiting: deque[T] = field(default_factory=deque)
    _since: float | None = None

    def add(self, one: T, now: float | None = None) -> None:
        """Take up a message."""
        if not self._waiting:
            self._since = time.monotonic() if now is None else now
        self._waiting.append(one)

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, now: float | None = None) -> float | None:
        """Return how long until the next round is due; None where nothing waits."""
        if not self._waiting or self._since is None:
            return None
        if self.gathering.seconds == 0 or self._clients() >= self.gathering.clients:
            return 0.0
        return max(0.0, self._since + self.gathering.seconds - (time.monotonic() if now is None else now))

    def due(self, most: int, now: float | None = None, *, closing: bool = False) -> list[list[T]]:
        """Return the rounds that are due, of at most about so many messages."""
        moment = time.monotonic() if now is None else now
        found: list[list[T]] = []
        while self._waiting and sum(map(len, found)) < most:
            if self.gathering.seconds == 0:
                found.append([self._waiting.popleft()])
                continue
            if self.wait(moment) and not closing:
                break
            found.append(self._next())
            self._since = moment if self._waiting else None
        return found

    def _clients(self) -> int:
        return len({one.client for one in self._waiting})

    def _next(self) -> list[T]:
        taken: dict[str, T] = {}
        later: deque[T] = deque()
        for one in self._waiting:
            if one.client in taken or (len(taken) >= self.gathering.clients):
                later.append(one)
            else:
                taken[one.client] = one
        self._waiting = later
        return list(taken.values())
