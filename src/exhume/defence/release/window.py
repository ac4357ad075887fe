"""One head per window of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from exhume.defence.release._base import Rule, positive
from exhume.protocol.head import Head
from exhume.protocol.rules import Occasion

__all__ = ["Window"]


class Window(Rule):
    """Releases at most one head per window; the first change after a window's end brings the next head.

    Parameters
    ----------
    seconds
        Length of the window.
    clock
        Where the time comes from. A saved state holds a reading of it, so a server that restarts wants a clock that
        goes on, such as the default.
    """

    name = "window"

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.time) -> None:
        self.seconds = positive("seconds", seconds)
        self._clock = clock
        self._last: float | None = None

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's plain arguments."""
        return {"seconds": self.seconds}

    def release(self, head: Head, occasion: Occasion) -> Head | None:
        """Pass the head if the window of the last one is over."""
        return head if self._last is None or self._clock() - self._last >= self.seconds else None

    def record(self, released: Head | None, occasion: Occasion) -> None:
        """Start a window with each head."""
        if released is not None:
            self._last = self._clock()

    def values(self) -> dict[str, Any]:
        """Return when the last head went out."""
        return {"last": self._last}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Take over when the last head went out."""
        self._last = None if values["last"] is None else float(values["last"])
