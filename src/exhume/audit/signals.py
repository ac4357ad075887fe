"""Signals that ask a process to end: all of them take the way of Ctrl-C, and wait while probes are taken back.

Pipelines that are cancelled, services that are stopped and terminals that are closed send SIGTERM or SIGHUP. By default
these end a process on the spot, with the probes of a live audit still standing.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["shielded", "stopping"]

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def stopping() -> Iterator[None]:
    """Let every signal that asks to end raise `KeyboardInterrupt`, as Ctrl-C does; one that is ignored stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:  # somebody else's handler, and SIG_IGN of nohup, are theirs to keep
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def shielded() -> Iterator[None]:
    """Hold back every signal that asks to end while probes are being taken back; it is heard afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        signal.signal(number, lambda number, frame: heard.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(heard):
            signal.raise_signal(number)
