"""What one probe run leaves behind: baseline, stacks of known right-hand sides and of observed changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import svdvals

from exhume.attack._linalg import StackFactor, diagonal
from exhume.attack._line import line
from exhume.attack.coordinates import Coordinates
from exhume.errors import AttackError, InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.head import Head
from exhume.protocol.summary import Summary

__all__ = ["Recorder", "Transcript"]

_FEW = 16  # a right-hand side with fewer than one entry in so many is kept by these


@dataclass(frozen=True, repr=False)
class Transcript:
    """Baseline head and the stacks of ``A X = Z``: ``X_j = W_j - W_0`` and ``Z_j = Q_j - P_j W_j`` (d x mc each).

    For moment-only probes every ``P_j`` is zero, ``X`` is the paper's ``R`` and ``Z`` its ``Q``.
    """

    baseline: Head
    X: Matrix
    Z: Matrix
    responses: int
    final: Head | None
    """The head after cancellation; None if the sequence was not cancelled."""
    probe: str
    moment_only: bool
    coordinates: Coordinates | None = None
    """What the probe can speak of, in which units; None where that is every coordinate as it is."""

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return self.baseline.d

    @property
    def c(self) -> int:
        """Number of classes."""
        return self.baseline.c

    def singular_values(self) -> Matrix:
        """Return all singular values of X, the largest first: d of them, zeros where there are fewer columns."""
        return np.asarray(svdvals(StackFactor.of(self.X).triangle, check_finite=False))

    def first(self, responses: int) -> Transcript:
        """Return the transcript as it stood after the first ``responses`` answers."""
        if not 0 <= responses <= self.responses:
            raise InputError("responses", f"from 0 to {self.responses}", responses)
        n = responses * self.c
        return replace(self, X=self.X[:, :n], Z=self.Z[:, :n], responses=responses, final=None)

    def reduced(self) -> Transcript:
        """Return the run as one of the federation that has only the live coordinates, in their units."""
        at = self.coordinates
        if at is None:
            return self
        t = at.units[:, None]
        final = None if self.final is None else at.head(self.final)
        X, Z = t * self.X[at.live], self.Z[at.live] / t
        return replace(self, baseline=at.head(self.baseline), X=X, Z=Z, final=final, coordinates=None)

    def __repr__(self) -> str:
        return line(
            self, probe=self.probe, d=self.d, c=self.c, responses=self.responses, precision=self.baseline.precision
        )


class Recorder:
    """Keeps the running totals ``(P_j, Q_j)`` of a probe run and collects its stacks."""

    def __init__(self, baseline: Head, probe: str, coordinates: Coordinates | None = None) -> None:
        self.baseline = baseline
        self.probe = probe
        self.coordinates = coordinates
        self._P: Matrix | None = None
        self._Q: Matrix = np.zeros_like(baseline.weights)
        self.steps = 0
        self._X: Matrix = np.empty((baseline.d, 0))
        self._changes: list[Matrix] = []
        self._sides: list[Matrix | _Entries] = []

    @property
    def total(self) -> Summary:
        """Everything that was sent and not taken back."""
        if self._P is None:
            return Summary.zeros(self.baseline.d, self.baseline.c).with_moment(self._Q)
        return Summary(self._P, self._Q)

    def sent(self, net: Summary) -> None:
        """Note a change that the server has applied."""
        self.steps += 1
        self._Q = self._Q + net.moment
        if self._P is None:
            self._P = None if net.gram_is_zero else net.gram.copy()
        elif not net.gram_is_zero:
            self._P += net.gram

    def heard(self, head: Head) -> None:
        """Note the head returned at the present totals."""
        if not np.isfinite(head.weights).all():
            raise AttackError("a returned head is not finite: the probe is too large for the released number format")
        self._changes.append(head.weights - self.baseline.weights)
        self._sides.append(_packed(self._Q) if self._P is None else self._Q - self._P @ head.weights)

    def transcript(self, final: Head | None) -> Transcript:
        """Return everything heard so far as stacks."""
        d, c = self.baseline.d, self.baseline.c
        self._X = _stacked(self._X, self._changes)
        self._changes.clear()
        return Transcript(
            baseline=self.baseline,
            X=self._X,
            Z=_unpacked(self._sides, d, c),
            responses=len(self._sides),
            final=final,
            probe=self.probe,
            moment_only=self._P is None,
            coordinates=self.coordinates,
        )


@dataclass(frozen=True, repr=False)
class _Entries:
    """A right-hand side of which most entries are zero: the others."""

    rows: Rows
    columns: Rows
    values: Matrix

    def into(self, place: Matrix) -> None:
        place[self.rows, self.columns] = self.values


def _packed(side: Matrix) -> Matrix | _Entries:
    """Return a right-hand side by its entries where these are few."""
    found = np.flatnonzero(side != 0.0)
    if _FEW * len(found) > side.size:
        return side
    rows, columns = np.divmod(found, side.shape[1])
    return _Entries(rows, columns, side[rows, columns])


def _stacked(first: Matrix, blocks: list[Matrix]) -> Matrix:
    """Return a stack with more blocks beside it; the blocks are let go one by one, as their copies fill the memory."""
    if not blocks:
        return first
    width = first.shape[1] + sum(block.shape[1] for block in blocks)
    made, at = np.empty((len(first), width)), first.shape[1]
    made[:, :at] = first
    for block in _taking(blocks):
        made[:, at : at + block.shape[1]] = block
        at += block.shape[1]
    return made


def _taking(blocks: list[Matrix]) -> Iterator[Matrix]:
    blocks.reverse()
    while blocks:
        yield blocks.pop()


def _unpacked(sides: list[Matrix | _Entries], d: int, c: int) -> Matrix:
    """Return the stack of right-hand sides: for a designed probe's a view of its diagonal, which takes no memory."""
    entries = [(side, j) for j, side in enumerate(sides) if isinstance(side, _Entries)]
    if sides and len(entries) == len(sides):
        rows = np.concatenate([side.rows for side, _ in entries])
        columns = np.concatenate([side.columns + j * c for side, j in entries])
        if np.array_equal(np.sort(rows), np.arange(d)) and np.array_equal(rows, columns):
            values = np.empty(d)
            values[rows] = np.concatenate([side.values for side, _ in entries])
            return diagonal(values, len(sides) * c)
    made = np.zeros((d, len(sides) * c))
    for j, side in enumerate(sides):
        place = made[:, j * c : (j + 1) * c]
        if isinstance(side, _Entries):
            side.into(place)
        else:
            place[:] = side
    return made
