"""How much, how often and how slowly: bounds that hold before a message is in memory."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator

from exhume.defence.admission.bounded_influence import BoundedInfluence
from exhume.defence.bounds import Bounds
from exhume.protocol.server import Server
from exhume.service.problems import ProblemError

__all__ = ["Rates", "body_limit", "bounds_of", "read_body", "until_tick"]

_HEADER = 1 << 16
_MOST_KNOWN = 10_000


def body_limit(d: int, c: int, rows: int) -> int:
    """Return the most bytes of a message: two dense sides, so many shown rows on each, and a header."""
    dense = 2 * 8 * (d * d + d * c)
    attached = 2 * 8 * (rows * (d + 1) + c)
    return dense + attached + _HEADER


def bounds_of(server: Server) -> Bounds | None:
    """Return the public bounds in force, if a rule has some."""
    return next((rule.bounds for rule in server.admission if isinstance(rule, BoundedInfluence)), None)


def until_tick(took: float, pace: float) -> float:
    """Return the seconds from an answer that took so long to the next whole multiple of ``pace``; 0 without one."""
    return pace * math.ceil(took / pace) - took if pace else 0.0


async def read_body(stream: AsyncIterator[bytes], length: str | None, most: int, seconds: float) -> bytes:
    """Return a body of at most so many bytes that comes within so many seconds, or say what is wrong with it.

    A declared length is believed only to refuse it.
    """
    if length is not None and length.isdecimal() and int(length) > most:
        raise _too_large(most, length)
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in stream:
                size += len(piece)
                if size > most:
                    raise _too_large(most, f"more than {most}")
                pieces.append(piece)
    except TimeoutError:
        raise ProblemError(
            408, field="body", allowed=f"within {seconds:g} seconds", got=f"{size} bytes by then", headers=_CLOSE
        ) from None
    return b"".join(pieces)


_CLOSE = {"Connection": "close"}


def _too_large(most: int, got: str) -> ProblemError:
    return ProblemError(413, field="body", allowed=f"at most {most} bytes", got=f"{got} bytes", headers=_CLOSE)


class Rates:
    """A bucket for each sender: filled at a rate, emptied by messages.

    Parameters
    ----------
    per_minute
        Messages of one sender that are taken in a minute, on average.
    burst
        Messages that may come at once after a pause.
    """

    def __init__(self, per_minute: float, burst: int) -> None:
        self._rate, self._burst = per_minute / 60.0, float(burst)
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, sender: str, now: float | None = None) -> None:
        """Take one message of a sender's, or say when to come back."""
        moment = time.monotonic() if now is None else now
        left, since = self._buckets.get(sender, (self._burst, moment))
        left = min(self._burst, left + (moment - since) * self._rate)
        if left < 1.0:
            wait = math.ceil((1.0 - left) / self._rate)
            raise ProblemError(429, "too many messages from this client", headers={"Retry-After": str(wait)})
        if len(self._buckets) >= _MOST_KNOWN:
            self._buckets = {}  # everybody starts anew: forgetting is cheaper than remembering strangers
        self._buckets[sender] = (left - 1.0, moment)
