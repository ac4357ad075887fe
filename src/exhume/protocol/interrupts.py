"""Ctrl-C and SIGTERM, held back while something runs that must happen whole or not at all."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

__all__ = ["HeldBack"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class HeldBack:
    """A block that no signal's handler ends in the middle: what came is handled at `let_through`, or after the block.

    Handlers run in the main thread alone. In every other thread, and for signals without a handler in Python, this does
    nothing.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._seen: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> HeldBack:
        if threading.current_thread() is threading.main_thread():
            try:
                for number in _SIGNALS:
                    if callable(handler := signal.getsignal(number)):
                        self._handlers[number] = handler
                        signal.signal(number, self._note)
            except BaseException:
                self._put_back()
                raise
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._seen = self._seen or (number, frame)

    def let_through(self) -> None:
        """Call the handler of a signal that has come; what it raises ends the block here."""
        if self._seen is not None:
            (number, frame), self._seen = self._seen, None
            self._handlers[number](number, frame)

    def _put_back(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def __exit__(self, *error: object) -> None:
        self._put_back()
        self.let_through()
