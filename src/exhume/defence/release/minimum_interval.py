"""Heads no closer together than an interval."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from exhume.defence.memory import Memory
from exhume.defence.release._base import Rule, positive
from exhume.protocol.head import Head
from exhume.protocol.rules import Occasion

__all__ = ["MinimumInterval"]


class MinimumInterval(Rule):
    """Releases no head sooner than so many seconds after the last; the first change after that brings the next one.

    Parameters
    ----------
    seconds
        The shortest time between two heads.
    clock
        Where the time comes from. A saved state holds a reading of it, so a server that restarts wants a clock that
        goes on, such as the default.
    """

    name = "minimum-interval"
    about = "at most one head in so many seconds"
    reads = "everyone"
    example: ClassVar[Mapping[str, Any]] = {"seconds": 60.0}
    former = ("window",)

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.time) -> None:
        self.seconds = positive("seconds", seconds)
        self._clock = clock
        self._last: float | None = None

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's plain arguments."""
        return {"seconds": self.seconds}

    def release(self, head: Head, occasion: Occasion) -> Head | None:
        """Pass the head if the interval since the last one is over."""
        return head if self._last is None or self._clock() - self._last >= self.seconds else None

    def record(self, released: Head | None, occasion: Occasion) -> None:
        """Start an interval with each head."""
        if released is not None:
            self._last = self._clock()

    def remembered(self) -> Memory:
        """Return when the last head went out."""
        return Memory({"last": self._last})

    def restore(self, memory: Memory) -> None:
        """Take over when the last head went out."""
        last = memory.values["last"]
        self._last = None if last is None else float(last)


RULES = (MinimumInterval,)
