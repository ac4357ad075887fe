"""A target that remembers what was sent to it, and takes back whatever is still outstanding."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from exhume.attack.probes import taking_back
from exhume.errors import RefusedError
from exhume.numerics import relative
from exhume.protocol.head import Head, unit_roundoff
from exhume.protocol.summary import Summary, Update
from exhume.protocol.target import Target

__all__ = ["UndoingTarget", "shielded", "undo_tolerance"]

ATTEMPTS = 3


def undo_tolerance(head: Head) -> float:
    """Return the relative head residual that roundoff alone may leave at a head's precision."""
    return max(1e-7, 8 * unit_roundoff(head.precision))


@contextmanager
def shielded() -> Iterator[None]:
    """Hold back Ctrl-C while probes are being taken back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class UndoingTarget:
    """A `Target` around another that keeps the sum of everything sent, and can bring the start back.

    An update whose answer was lost (any error but a refusal) is in doubt: it may or may not have been applied.
    `restore` finds out by the head.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.baseline = target.head()
        self._total = Summary.zeros(self.baseline.d, self.baseline.c)
        self._doubts: list[Update] = []
        self.messages = 0
        self.responses = 1

    def head(self) -> Head:
        """Return the head that the server last released."""
        return self._target.head()

    def submit(self, update: Update) -> Head:
        """Submit an update, remembering it before the answer is there."""
        self._doubts.append(update)
        self.messages += 1
        try:
            head = self._target.submit(update)
        except RefusedError:
            self._doubts.pop()
            raise
        self._doubts.pop()
        self._total = self._total + update.net
        self.responses += 1
        return head

    @property
    def residual(self) -> float:
        """Relative distance of the public head from the one at the start."""
        start = self.baseline.weights
        return relative(self.head().weights - start, start)

    @property
    def restored(self) -> bool:
        """Whether the head is back to within roundoff."""
        return self.residual <= undo_tolerance(self.baseline)

    def restore(self) -> bool:
        """Take back whatever is outstanding; returns whether the head came back."""
        doubts, self._doubts = self._doubts, []
        if not self._total.is_zero:
            self._retry(taking_back(self._total))
        self._total = Summary.zeros(self.baseline.d, self.baseline.c)
        for doubt in doubts:
            if self.restored:
                break
            before = self.residual
            self._retry(doubt.undo())
            if self.residual > before:  # it had never arrived
                self._retry(doubt)
        self._total = Summary.zeros(self.baseline.d, self.baseline.c)
        return self.restored

    def _retry(self, update: Update) -> None:
        """Submit until it is answered; an answer lost on the way is settled by whether the head moved."""
        start = self.head().weights
        for attempt in range(ATTEMPTS):
            try:
                self.submit(update)
                return
            except RefusedError:
                raise
            except Exception:
                self._doubts.pop()
                if not np.array_equal(self.head().weights, start):
                    self._total = self._total + update.net
                    return
                if attempt == ATTEMPTS - 1:
                    raise
