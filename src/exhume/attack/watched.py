"""What an attacker keeps of every broadcast it saw, its own and other people's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from exhume.attack._line import line
from exhume.errors import AttackError
from exhume.numerics import RANK_TOLERANCE, Matrix
from exhume.protocol.head import Head, unit_roundoff
from exhume.protocol.summary import Summary

__all__ = ["Broadcast", "Watched", "Watcher", "blank", "rounding", "same_broadcast", "visible"]

FLOOR = 1e-7
"""Singular values of a jump below this share of the first are roundoff of the server's own solves, even in float64."""


@dataclass(frozen=True, repr=False)
class Broadcast:
    """One head that came out, beside what the attacker had standing then."""

    head: Head
    own: bool
    """Whether a message of the attacker's brought it about."""
    side: Matrix
    """``Q - P W`` for the attacker's standing totals (P, Q) and this head: what its own rows take part in."""

    def __repr__(self) -> str:
        return line(self, own=self.own, serial=self.head.serial, head=self.head.weights)


@dataclass(frozen=True, repr=False)
class Watched:
    """Every broadcast of a stretch of time, in order, from a baseline on."""

    baseline: Head
    side: Matrix
    """``Q - P W`` at the baseline: zero where nothing of the attacker's stood."""
    broadcasts: tuple[Broadcast, ...]
    moment_only: bool

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return self.baseline.d

    @property
    def c(self) -> int:
        """Number of classes."""
        return self.baseline.c

    @property
    def answers(self) -> int:
        """How many broadcasts the attacker itself brought about."""
        return sum(b.own for b in self.broadcasts)

    @property
    def foreign(self) -> int:
        """How many somebody else brought about."""
        return len(self.broadcasts) - self.answers

    def before(self, number: int) -> tuple[Head, Matrix]:
        """Return head and side as they were before a broadcast."""
        if number == 0:
            return self.baseline, self.side
        return self.broadcasts[number - 1].head, self.broadcasts[number - 1].side

    def moves(self, number: int) -> tuple[Matrix, Matrix]:
        """Return how a broadcast moved head and side: ``A dX - dZ`` is somebody else's doing, zero where nobody's."""
        head, side = self.before(number)
        return self.broadcasts[number].head.weights - head.weights, self.broadcasts[number].side - side

    def __repr__(self) -> str:
        return line(self, d=self.d, c=self.c, answers=self.answers, foreign=self.foreign)


class Watcher:
    """Keeps the attacker's standing totals and notes every broadcast with them."""

    def __init__(self, baseline: Head, standing: Summary | None = None) -> None:
        self._P: Matrix | None = None
        self._Q: Matrix = np.zeros_like(baseline.weights)
        self._seen: list[Broadcast] = []
        self._gram = self._pending = False
        if standing is not None:
            self.sent(standing)
        self._baseline, self._side = baseline, self._side_of(baseline)
        self._last, self._pending = baseline, False

    @property
    def total(self) -> Summary:
        """Everything that was sent and not taken back."""
        if self._P is None:
            return Summary.zeros(*self._Q.shape).with_moment(self._Q)
        return Summary(self._P, self._Q)

    def sent(self, net: Summary) -> None:
        """Note a change of the attacker's that the server has applied."""
        self._pending = True
        self._Q = self._Q + net.moment
        if not net.gram_is_zero:
            self._gram = True
            self._P = net.gram.copy() if self._P is None else self._P + net.gram

    def heard(self, head: Head) -> bool:
        """Note a head if it is a new broadcast: the attacker's own after `sent`, else somebody else's."""
        if same_broadcast(head, self._last):
            return False
        if not np.isfinite(head.weights).all():
            raise AttackError("a returned head is not finite: the probe is too large for the released number format")
        self._seen.append(Broadcast(head, self._pending, self._side_of(head)))
        self._last, self._pending = head, False
        return True

    def watched(self) -> Watched:
        """Return everything seen so far."""
        return Watched(self._baseline, self._side, tuple(self._seen), not self._gram)

    def _side_of(self, head: Head) -> Matrix:
        side: Matrix = self._Q if self._P is None else self._Q - self._P @ head.weights
        return side


def same_broadcast(one: Head, other: Head) -> bool:
    """Whether two heads are one broadcast: by serial where both tell one, else by weights."""
    if one.serial is not None and other.serial is not None:
        return one.serial == other.serial
    return np.array_equal(one.weights, other.weights)


def rounding(heads: Iterable[Head]) -> Matrix:
    """Return the variance of the rounding error of a sum or difference of heads, entry by entry.

    An entry w rounded to nearest errs by up to ``u |w|``, uniformly: variance ``(u w)^2 / 3``.
    """
    total: Matrix = np.sum([(unit_roundoff(h.precision) * h.weights) ** 2 for h in heads], axis=0) / 3.0
    return total


def visible(change: Matrix, variance: Matrix, whole: Matrix | None = None) -> tuple[Matrix, Matrix]:
    """Return left (d x n) and right (n x c) factors of a change of the head, as far as it stands above rounding.

    Rows are first scaled to equal noise. A random matrix of unit entries has norm about ``sqrt(d) + sqrt(c)``; what
    is below twice that, or below the solver's own floor, is not counted. The floor is a share of the whole change that
    this one is a part of.
    """
    d, c = change.shape
    noise = np.sqrt(variance.mean(axis=1))
    noise = np.maximum(noise, 1e-3 * np.median(noise) + 1e-300)
    left, values, right = svd(change / noise[:, None], full_matrices=False, check_finite=False)
    largest = float(values[0]) if whole is None else float(np.linalg.norm(whole / noise[:, None], 2))
    edge = max(2.0 * (np.sqrt(d) + np.sqrt(c)), FLOOR * largest)
    n = int(np.count_nonzero(values > edge))
    return left[:, :n] * noise[:, None], values[:n, None] * right[:n]


def blank(side: Matrix) -> Matrix:
    """Return the class directions (c x b) that an own message leaves alone: what moves there was somebody else."""
    _, values, right = svd(side, check_finite=False)
    largest = values[0] if len(values) else 0.0
    return right[int(np.count_nonzero(values > RANK_TOLERANCE * largest)) :].T if largest > 0 else np.eye(side.shape[1])
