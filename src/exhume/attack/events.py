"""Other people's changes, read one by one from a stretch of broadcasts and the state that was fitted to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import cholesky, solve_triangular, svd

from exhume.attack._line import line
from exhume.attack.block import Block
from exhume.attack.estimate.stitched import Change, Stitched
from exhume.attack.recover.base import Recovered
from exhume.attack.recover.fit import Fitted, fit_record
from exhume.attack.recover.rank_one import MARGIN, UNEXPLAINED
from exhume.attack.state import State
from exhume.attack.watched import Watched, rounding
from exhume.numerics import Matrix, symmetric

__all__ = ["Direction", "Event", "EventDiagnostics", "read_events"]

Direction = Literal["added", "deleted", "mixed", "unknown"]

_AGREE = 0.1  # the two lengths of a record, from its own head and from later answers, may differ by this share


@dataclass(frozen=True, repr=False)
class EventDiagnostics:
    """How far the attacker can trust an event without any hidden value."""

    second: float
    """Singular value after the last counted over the first, whitened: zero for a change of so many records."""
    noise: float
    """What the known rounding of the two heads makes of that ratio."""
    residual: float | None
    """Relative misfit of the right vector, for one record."""
    margin: float | None
    """Misfit of the second-best reading over that of the best, for one record."""
    lengths: float | None
    """Squared length of the record as later answers show it, over that of its own head: 1 where both agree."""

    def __repr__(self) -> str:
        return line(self, second=self.second, noise=self.noise, margin=self.margin, lengths=self.lengths)


@dataclass(frozen=True, repr=False)
class Event:
    """One change of somebody else's."""

    number: int
    """Which broadcast showed it, from 0."""
    direction: Direction
    records: int
    merged: bool
    """Whether it came in one broadcast with a message of the attacker's own."""
    found: Recovered
    """What was added or deleted; its block is positive for either, and signed where the change was mixed."""
    before: Matrix
    """A as it was before the change."""

    @property
    def after(self) -> Matrix:
        """A as it was after the change."""
        return self.before + self._signed

    @property
    def _signed(self) -> Matrix:
        """The change of the gram."""
        return -self.found.block.gram if self.direction == "deleted" else self.found.block.gram

    def __repr__(self) -> str:
        return line(self, number=self.number, direction=self.direction, records=self.records, label=self.found.label)


def read_events(watched: Watched, fit: Stitched, state: State, *, nonnegative: bool = False) -> tuple[Event, ...]:
    """Read every change in order, carrying A through them.

    Parameters
    ----------
    watched, fit
        The broadcasts and what was fitted to them.
    state
        The state at the first answer, estimated from ``fit.transcript``.
    nonnegative
        Whether the encoder's features are known to be non-negative.
    """
    early, late = [], []
    A = state.A
    for change in reversed([c for c in fit.changes if c.leading]):
        early.append(_read(watched, change, A, nonnegative))
        A = early[-1].before
    A = state.A
    for change in (c for c in fit.changes if not c.leading):
        late.append(_read(watched, change, A, nonnegative))
        A = late[-1].after
    return (*reversed(early), *late)


def _read(watched: Watched, change: Change, A: Matrix, nonnegative: bool) -> Event:
    """Read one change: ``A_before dX - dZ = +-F'(Y - F W_after)``, whitened.

    Of a leading change A is the state after it, and the same holds with W before it.
    """
    head, earlier = watched.broadcasts[change.number].head, watched.before(change.number)[0]
    dX, dZ = watched.moves(change.number)
    L = cholesky(A, lower=True, check_finite=False)
    doing = solve_triangular(L, A @ dX - dZ, lower=True)
    left, values, right = svd(doing, full_matrices=False, check_finite=False)
    n = change.records
    variance = rounding([head, earlier])
    noise = float(np.sqrt(np.diag(A) @ variance.sum(axis=1))) / float(values[0])
    second = float(values[n] / values[0]) if n < len(values) else 0.0
    gram = _gram(A, change)
    if n > 1:
        return _batch(watched, change, A, gram, EventDiagnostics(second, noise, None, None, None))
    weights = earlier.weights if change.leading else head.weights
    record, direction, margin = _one(L @ left[:, 0], values[0] * right[0], weights, nonnegative, gram)
    own = float(record.feature @ record.feature)
    lengths = None if gram is None or own == 0 else abs(float(np.trace(gram))) / own
    found = EventDiagnostics(second, noise, record.residual, margin, lengths)
    agree = lengths is None or abs(lengths - 1) < _AGREE
    known = second < max(UNEXPLAINED, 3.0 * noise) and margin > MARGIN and agree
    block = Block.of_sample(record.label, record.feature, watched.c)
    recovered = Recovered(record.label, record.feature, block, known, found)
    sign = -1.0 if direction == "deleted" else 1.0
    before = A - sign * block.gram if change.leading else A
    return Event(change.number, direction, 1, change.merged, recovered, before)


def _one(
    direction: Matrix, right: Matrix, weights: Matrix, nonnegative: bool, gram: Matrix | None
) -> tuple[Fitted, Direction, float]:
    """Return the record that explains a change best, whether it came or went, and by how much it won.

    Where later answers determined the change of the gram, its sign says whether it came or went.
    """
    ways: dict[Direction, Fitted] = {
        "added": fit_record(direction, right, weights, turn=True, positive=nonnegative),
        "deleted": fit_record(direction, -right, weights, turn=True, positive=nonnegative),
    }
    if gram is not None:
        way: Direction = "added" if np.trace(gram) > 0 else "deleted"
        return ways[way], way, ways[way].margin
    way = min(ways, key=lambda name: ways[name].residual)
    other = ways["added" if way == "deleted" else "deleted"]
    if other.label == ways[way].label:
        return ways[way], way, ways[way].margin
    return ways[way], way, min(ways[way].margin, other.residual / max(ways[way].residual, 1e-300))


def _gram(A: Matrix, change: Change) -> Matrix | None:
    """Return the signed change of the gram, by Woodbury from that of the inverse; None where it was not determined."""
    if not change.determined:
        return None
    V = A @ change.left
    try:
        inner = np.linalg.inv(np.linalg.inv(change.block) + change.left.T @ V)
    except np.linalg.LinAlgError:
        return None
    return symmetric(-V @ inner @ V.T)


def _batch(watched: Watched, change: Change, A: Matrix, gram: Matrix | None, found: EventDiagnostics) -> Event:
    """Read several records in one broadcast: their gram from the fit, their moment from the head."""
    before, after = watched.before(change.number)[0].weights, watched.broadcasts[change.number].head.weights
    dZ = watched.moves(change.number)[1]
    way: Direction = "unknown"
    block = Block(np.zeros_like(A), np.zeros_like(after))
    if gram is not None:
        values = np.linalg.eigvalsh(gram)
        low, high = float(values[0]), float(values[-1])
        small = UNEXPLAINED * max(high, -low)
        way = "added" if low > -small else "deleted" if high < small else "mixed"
        moment = A @ (after - before) + gram @ after - dZ
        sign = -1.0 if way == "deleted" else 1.0
        block = Block(sign * gram, sign * moment)
    # As many records as classes cannot be told from more, of which only so many stand out.
    few = change.records < watched.c
    known = few and gram is not None and found.second < max(UNEXPLAINED, 3.0 * found.noise)
    return Event(change.number, way, change.records, change.merged, Recovered(None, None, block, known, found), A)
