"""A target that remembers what was sent to it, and takes back whatever is still outstanding."""

from __future__ import annotations

import uuid
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from exhume.attack.probes import taking_back
from exhume.audit.outstanding import Outstanding, write
from exhume.errors import RefusedError
from exhume.numerics import Matrix, relative
from exhume.protocol.head import Head, unit_roundoff
from exhume.protocol.summary import Summary, Update
from exhume.protocol.target import SettlingTarget, Target

__all__ = ["MOST_HARM", "UndoingTarget", "undo_tolerance"]

ATTEMPTS = 3

MOST_HARM = 1e-3
"""No undo may leave the head off by more than this share, however inexact the server is."""

EXPLAINED = 0.1
"""Share of what is left of the head's change that repeated messages may leave unexplained."""

MOST_REPEATS = 30
"""How often one message is thought to have been applied, at most."""

MOST_DOUBTS = 4
"""Messages in doubt of which every combination is tried."""


def undo_tolerance(head: Head, noise: float = 0.0) -> float:
    """Return the relative head residual that an undo may leave: roundoff, or the server's own arithmetic.

    Both heads that are compared have an error; four times their sum is more than luck. However inexact the server is,
    no undo may leave more than `MOST_HARM`, unless the released format shows no less.
    """
    return max(8 * unit_roundoff(head.precision), min(max(1e-7, 8 * noise), MOST_HARM))


class UndoingTarget:
    """A `Target` around another that keeps the sum of everything sent, and can bring the start back.

    An update whose answer was lost (any error but a refusal) is in doubt: it may or may not have been applied.
    `restore` finds out by the head. Where it cannot, what is outstanding goes to a file in ``folder``.
    """

    def __init__(self, target: Target, *, folder: Path | None = None, name: str = "") -> None:
        self._target = target
        self.baseline = target.head()
        self._last = self.baseline.weights
        self._total = Summary.zeros(self.baseline.d, self.baseline.c)
        self._doubts: list[Update] = []
        self._keys: list[str | None] = []
        self._changes: list[tuple[Summary, Matrix]] = []
        self._folder, self._name = folder, name
        self.tolerance = undo_tolerance(self.baseline)
        self.file: Path | None = None
        """Where the sum still to be taken back was put, if it had to be."""
        self.repeated = 0
        """Messages that were found to have been applied more than once, and were taken back as often."""
        self.messages = 0
        self.responses = 1

    @classmethod
    def resumed(cls, target: Target, left: Outstanding, folder: Path) -> UndoingTarget:
        """Return the target as an audit left it that could not take everything back."""
        made = cls(target, folder=folder, name=left.target)
        made.baseline, made._total, made.tolerance = left.baseline, left.total, left.tolerance
        made._doubts = [Update.adding(doubt) for doubt in left.doubts]
        made._keys = list(left.keys) or [None] * len(left.doubts)
        made._settle_by_receipts()
        return made

    @property
    def outstanding(self) -> Outstanding:
        """What is still to be taken back."""
        doubts = tuple(update.net for update in self._doubts)
        return Outstanding(self.baseline, self._total, doubts, self.tolerance, self._name, tuple(self._keys))

    def head(self) -> Head:
        """Return the head that the server last released."""
        return self._target.head()

    def submit(self, update: Update) -> Head:
        """Submit an update, remembering it before the answer is there."""
        self._doubts.append(update)
        self._keys.append(None)
        self.messages += 1
        try:
            head = self._submitted(update)
        except RefusedError:
            self._drop(-1)
            raise
        except BaseException as error:
            self._keys[-1] = self._keys[-1] or getattr(error, "key", None)
            raise
        self._drop(-1)
        self._arrived(update, head)
        self.responses += 1
        return head

    def _submitted(self, update: Update) -> Head:
        """Send an update; where the server knows keys it is in the file with its key before, for who is killed."""
        if self._folder is None or not isinstance(self._target, SettlingTarget):
            return self._target.submit(update)
        key = self._keys[-1] = uuid.uuid4().hex
        self._put_down()
        return self._target.again(update, key)

    def _drop(self, place: int) -> Update:
        self._keys.pop(place)
        return self._doubts.pop(place)

    def _settle(self) -> None:
        """Send what is in doubt again under its key, where the server knows keys: it counts once then, for sure."""
        if not isinstance(self._target, SettlingTarget):
            return
        for place in reversed(range(len(self._doubts))):
            key = self._keys[place]
            if key is not None:
                try:
                    head = self._target.again(self._doubts[place], key)
                except RefusedError:
                    self._drop(place)
                else:
                    self._arrived(self._drop(place), head)

    def _settle_by_receipts(self) -> None:
        """Ask for the receipts of what an earlier audit left in doubt; only its sums are known, not its messages."""
        if not isinstance(self._target, SettlingTarget):
            return
        for place in reversed(range(len(self._doubts))):
            key = self._keys[place]
            if key is not None:
                applied, update = self._target.applied(key), self._drop(place)
                self._total = self._total + update.net if applied else self._total

    def _arrived(self, update: Update, head: Head) -> None:
        self._total = self._total + update.net
        self._changes.append((update.net, head.weights - self._last))
        self._last = head.weights

    @property
    def residual(self) -> float:
        """Relative distance of the public head from the one at the start."""
        start = self.baseline.weights
        return relative(self.head().weights - start, start)

    @property
    def restored(self) -> bool:
        """Whether the head is back to within what the server's arithmetic leaves."""
        return self.residual <= self.tolerance

    def restore(self) -> bool:
        """Take back whatever is outstanding; returns whether the head came back.

        Whatever it cannot take back, for the server is gone or refuses, is in `file` before this returns or raises.
        """
        try:
            back = self._take_back() or self._take_back_repeats()
        except BaseException:
            self._put_down()
            raise
        if back:
            self._total, self._doubts, self._keys = Summary.zeros(self.baseline.d, self.baseline.c), [], []
            self._changes = []
            if self.file is not None:
                self.file.unlink(missing_ok=True)
                self.file = None
        elif not self.outstanding.nothing:
            self._put_down()
        return back

    def _put_down(self) -> None:
        if self._folder is not None and not self.outstanding.nothing:
            self.file = write(self._folder, self.outstanding, self.file)  # one audit, one file: never sent twice

    def _take_back(self) -> bool:
        """Take the sum back; of messages in doubt every combination is tried until the head is as it was."""
        self._settle()
        if self._doubts and self.restored:
            return True
        doubts = self._doubts[:MOST_DOUBTS]
        sets = [chosen for n in range(len(doubts) + 1) for chosen in combinations(doubts, n)]
        for chosen in sets:
            standing = sum((update.net for update in chosen), self._total)
            if not standing.is_zero:
                self._send_surely(taking_back(standing))
            if self.restored:
                return True
        return False

    def _take_back_repeats(self) -> bool:
        """Take back messages that a blind retry had applied more than once, as far as the head shows which.

        A message applied 1 + k times changed the head 1 + k times as much as its share: of the change that is left,
        ``k / (1 + k)`` of that answer. Only for moments, to which a head answers linearly.
        """
        known = [(net, change) for net, change in self._changes if net.gram_is_zero]
        if self._doubts or not known or len(known) < len(self._changes):
            return False
        left = (self.head().weights - self.baseline.weights).ravel()
        times = _repeats(np.stack([change.ravel() for _, change in known], axis=1), left)
        if times is None:
            return False
        extra = sum(n * net.moment for n, (net, _) in zip(times, known, strict=True))
        self._total = self._total.with_moment(self._total.moment + extra)
        self._send_surely(taking_back(self._total))
        self.repeated += sum(times)
        return self.restored

    def _send_surely(self, update: Update) -> None:
        """Submit until it is answered; an answer lost on the way is settled by whether the head moved."""
        start = self.head().weights
        for attempt in range(ATTEMPTS):
            try:
                self.submit(update)
                return
            except RefusedError:
                raise
            except Exception:
                now = self.head()  # if this raises too, the update stays in doubt
                self._drop(-1)
                if not np.array_equal(now.weights, start):
                    self._arrived(update, now)
                    return
                if attempt == ATTEMPTS - 1:
                    raise


def _repeats(answers: Matrix, left: Matrix) -> list[int] | None:
    """Return how often more than once each message was applied, from its answer (a column) and the change that is left.

    One message alone comes first: answers to the same change are alike, and any of them explains it as well.
    """
    size = float(np.linalg.norm(left))
    columns = np.arange(answers.shape[1])
    alone = answers.T @ left / np.maximum(np.square(answers).sum(axis=0), 1e-300)
    misfits = np.linalg.norm(left[:, None] - answers * alone, axis=0)
    likely = [
        k for k in columns[np.argsort(misfits, kind="stable")] if misfits[k] <= EXPLAINED * size and _times(alone[k])
    ]
    if likely:
        return [_times(alone[k]) if k == likely[0] else 0 for k in columns]
    shares, misfit = nnls(answers, left)
    times = [_times(share) for share in shares]
    return times if misfit <= EXPLAINED * size and any(times) else None


def _times(share: float) -> int:
    """Return k of a share ``k / (1 + k)``; 0 where it is none."""
    return round(share / (1.0 - share)) if 0.0 < share < 1.0 - 1.0 / (2 + MOST_REPEATS) else 0
