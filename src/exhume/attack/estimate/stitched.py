"""A state and other people's changes, fitted together: no quiet interval.

While the attacker probes, somebody else's change of n records moves ``H = A^-1`` by ``w R w'``: n vectors w that the
jump of the public head shows, and a symmetric n x n block R that it does not. With ``dX = H_t dZ`` for each of the
attacker's own messages, summed up to X and Z,

    X_j = H_0 Z_j + sum over events i before j of w_i R_i w_i' (Z_j - Z_i),

which is linear in H_0 and all R. H_0 is symmetric, so eliminating it leaves equations for the R alone: the asymmetry
of the columns that were read. Where a gram stands (the attacker's own rows), w itself depends on H
(``w = u + H P u``), and the fit is repeated until it stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exhume.attack._line import line
from exhume.attack.symmetric_regression import SymmetricRegression
from exhume.attack.transcript import Transcript
from exhume.attack.watched import Watched, blank, rounding, visible
from exhume.errors import NotIdentifiedError
from exhume.numerics import Matrix, relative

__all__ = ["Change", "Stitched", "stitched"]

_ROUNDS = 40
_STILL = 1e-13  # of a repeated fit: H moved by less than this share, or no longer by less and less
_REFINE = 4  # steps of refinement of the normal equations
_SINGULAR = 1e-15  # eigenvalues of the scaled normal equations below this share are directions that nothing was read of


@dataclass(frozen=True, repr=False)
class Change:
    """Somebody else's change between or within two of the attacker's messages."""

    number: int
    """Which broadcast showed it, from 0."""
    merged: bool
    """Whether it came in one broadcast with a message of the attacker's own."""
    leading: bool
    """Whether it came before the attacker's first answer: the state that is fitted is then the one after it."""
    left: Matrix
    """``w``: its left vectors ``H F'`` up to a mixing (d x n)."""
    block: Matrix
    """``R``: what it did to the inverse is ``w R w'`` (n x n)."""
    spread: Matrix
    """Standard errors of R's entries, from the misfit; infinite where nothing was read before or after it."""

    @property
    def records(self) -> int:
        """How many records stand out of the rounding."""
        return int(self.left.shape[1])

    @property
    def determined(self) -> bool:
        """Whether R stands out of its own error."""
        return bool(np.linalg.norm(self.spread) < 0.5 * np.linalg.norm(self.block))

    def __repr__(self) -> str:
        return line(self, number=self.number, records=self.records, merged=self.merged, determined=self.determined)


@dataclass(frozen=True, repr=False)
class Stitched:
    """What a whole stretch of broadcasts says: one transcript as if nobody had moved, and who moved how."""

    transcript: Transcript
    changes: tuple[Change, ...]
    H: Matrix
    """The inverse at the first answer, by symmetric regression; a corner that was never read is zero."""
    misfit: float
    """Root mean square of what the fit leaves, in units of the known rounding."""
    asymmetry: float
    """The same before any change was fitted: what a reader who assumes a quiet interval must live with."""
    rounds: int

    def __repr__(self) -> str:
        return line(
            self, d=self.transcript.d, answers=self.transcript.responses, changes=len(self.changes), misfit=self.misfit
        )


def stitched(watched: Watched) -> Stitched:
    """Fit the state at the attacker's first answer, and every change before and after it, from all broadcasts.

    A change before the first answer moved nothing that was read, so the state is the one after it.

    Raises
    ------
    NotIdentifiedError
        If the attacker brought about no broadcast at all.
    """
    if watched.answers == 0:
        raise NotIdentifiedError("no answer of the attacker's own was seen: there is nothing to stitch", None)
    found = [_jump_of(watched, i) for i in range(len(watched.broadcasts))]
    stretch = _stretch(watched, found)
    events = [event for event in found if event is not None]
    basis = SymmetricRegression.of(stretch.Z, stretch.row_noise, stretch.column_noise)
    whole = basis.whole(stretch.X)
    H, fit = basis.symmetric_part(whole), _Fit.none()
    rounds, moved = 0, np.inf
    for rounds in range(1, _ROUNDS + 1):
        lefts = _lefts(events, H, fit.blocks)
        fit = _fitted(stretch, basis, whole, events, lefts)
        before, H = H, basis.symmetric_part(whole - fit.model)
        last, moved = moved, relative(H - before, H)
        if not any(e.pulled.any() for e in events) or moved <= _STILL or (rounds > 2 and moved > 0.5 * last):
            break
    transcript = Transcript(
        watched.baseline,
        stretch.X - basis.back(fit.model),
        stretch.Z,
        watched.answers,
        None,
        "stitched",
        watched.moment_only,
    )
    changes = tuple(
        Change(e.number, e.merged, stretch.place[e.number] == 0 and not e.merged, left, block, spread)
        for e, left, block, spread in zip(events, lefts, fit.blocks, fit.spreads, strict=True)
    )
    return Stitched(transcript, changes, H, fit.misfit, basis.misfit(whole), rounds)


@dataclass(frozen=True, repr=False)
class _Stretch:
    """The stacks of the attacker's own moves, summed; and where each broadcast stands in them."""

    watched: Watched
    X: Matrix
    Z: Matrix
    place: tuple[int, ...]
    """Own answers before each broadcast."""
    row_noise: Matrix
    column_noise: Matrix

    def tail(self, number: int) -> Matrix:
        """Return ``Z_j - Z_i`` for every answer after a broadcast, zero for those before it."""
        c, start = self.watched.c, self.place[number]
        at = self.Z[:, (start - 1) * c : start * c] if start else np.zeros((self.watched.d, c))
        tail = self.Z - np.tile(at, self.Z.shape[1] // c)
        tail[:, : start * c] = 0.0
        return tail


def _stretch(watched: Watched, events: list[_Event | None]) -> _Stretch:
    """Sum the attacker's own moves: the head's way from the baseline, less what others did to it.

    Of somebody else's jump only the part of its rank is taken off: the rest is rounding, which would stay in all later
    columns.
    """
    x, z = np.zeros_like(watched.baseline.weights), np.zeros_like(watched.side)
    X: list[Matrix] = []
    Z: list[Matrix] = []
    place, variances = [], []
    left_over = np.zeros_like(x)
    for number, (b, event) in enumerate(zip(watched.broadcasts, events, strict=True)):
        place.append(len(X))
        if not b.own:
            if event is not None:
                x, z = x + event.left @ event.right, z - event.pulled @ event.right
                share = event.left.shape[1] * (1.0 / watched.c + 1.0 / watched.d)
                left_over = left_over + share * rounding([b.head, watched.before(number)[0]])
            continue
        X.append(b.head.weights - watched.baseline.weights - x)
        Z.append(b.side - watched.side - z)
        variances.append(rounding([watched.baseline, b.head]) + left_over)
    noise = np.hstack(variances)
    rows = np.sqrt(noise.mean(axis=1))
    columns = np.sqrt(noise.mean(axis=0) / max(float(noise.mean()), 1e-300))
    return _Stretch(
        watched,
        np.hstack(X),
        np.hstack(Z),
        tuple(place),
        np.maximum(rows, 1e-3 * float(np.median(rows)) + 1e-300),
        np.maximum(columns, 1e-3),
    )


@dataclass(frozen=True, repr=False)
class _Event:
    """A change as the jump shows it, before H is known."""

    number: int
    merged: bool
    left: Matrix
    right: Matrix
    pulled: Matrix
    """``P u`` for the left vectors u."""


def _jump_of(watched: Watched, number: int) -> _Event | None:
    """Return what a broadcast shows of somebody else's change; None where it shows none."""
    b = watched.broadcasts[number]
    change, side = watched.moves(number)
    variance = rounding([b.head, watched.before(number)[0]])
    free = blank(side) if b.own else np.eye(watched.c)
    if free.shape[1] == 0:
        return None
    left, right = visible(change @ free, variance @ free**2, change)
    if left.shape[1] == 0:
        return None
    # Somebody else's jump under a standing P moves the side by -P dW; a merged one shows H F' itself.
    pulled = np.zeros_like(left) if b.own else -side @ np.linalg.pinv(right)
    return _Event(number, b.own, left, right, pulled)


def _lefts(events: list[_Event], H: Matrix, blocks: list[Matrix]) -> list[Matrix]:
    """Return ``w = u + H_before P u`` of every event, H brought forward through those before it."""
    lefts: list[Matrix] = []
    for event in events:
        w = event.left
        if event.pulled.any():
            w = w + H @ event.pulled
            for earlier, block in zip(lefts, blocks, strict=False):
                w = w + earlier @ (block @ (earlier.T @ event.pulled))
        lefts.append(w)
    return lefts


@dataclass(frozen=True, repr=False)
class _Fit:
    """The unknowns of all events, and the part of X that is their doing."""

    blocks: list[Matrix]
    spreads: list[Matrix]
    model: Matrix
    misfit: float

    @classmethod
    def none(cls) -> _Fit:
        return cls([], [], np.zeros((1, 1)), 0.0)


def _fitted(
    stretch: _Stretch, basis: SymmetricRegression, whole: Matrix, events: list[_Event], lefts: list[Matrix]
) -> _Fit:
    """Solve for every R (and the right factors of merged changes) by least squares on the asymmetry of X."""
    terms = [t for k in range(len(events)) for t in _terms(stretch, events[k], lefts[k])]
    if not terms:
        return _unpacked(stretch, events, lefts, np.zeros(0), np.zeros(0), np.zeros_like(whole), basis.misfit(whole))
    left = basis.left(np.column_stack([t[0] for t in terms]))
    right = basis.right(np.column_stack([t[1] for t in terms]))
    numbers = np.array([t[2] for t in terms])
    owner = np.cumsum(np.r_[0, np.diff(numbers) != 0])
    theta, spread, misfit = _solve(basis, whole, left, right, owner)
    return _unpacked(stretch, events, lefts, theta, spread, (left * theta[owner]) @ right.T, misfit)


def _terms(stretch: _Stretch, event: _Event, w: Matrix) -> list[tuple[Matrix, Matrix, int]]:
    """Return the rank-one stacks of an event's unknowns as (left, right, number of the unknown)."""
    if stretch.place[event.number] == 0 and not event.merged:
        return []
    tail = w.T @ stretch.tail(event.number)
    n, base = w.shape[1], event.number << 20
    out: list[tuple[Matrix, Matrix, int]] = []
    for k, (a, b) in enumerate(_pairs(n)):
        out.append((w[:, a], tail[b], base + k))
        if a != b:
            out.append((w[:, b], tail[a], base + k))
    if event.merged:
        c, place = stretch.watched.c, stretch.place[event.number]
        for k, (a, label) in enumerate(np.ndindex(n, c)):
            z = np.zeros(stretch.X.shape[1])
            z[place * c + label :: c] = 1.0
            out.append((w[:, a], z, base + len(_pairs(n)) + k))
    return out


def _pairs(n: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(n) for b in range(a, n)]


def _solve(
    basis: SymmetricRegression, whole: Matrix, left: Matrix, right: Matrix, owner: NDArray[np.intp]
) -> tuple[Matrix, Matrix, float]:
    """Return unknowns, their standard errors and the misfit.

    Normal equations, because the outside part of rank-one stacks has inner products without ever being formed; refined
    by its own residual, which undoes what squaring the condition costs.
    """
    d, p = len(basis.s), int(owner[-1]) + 1
    F = np.zeros((p, len(basis.weight)))
    for k, a, b in zip(owner, left.T, right.T, strict=True):
        F[k] += basis.skew_of(a, b[:d])
    fold = np.zeros((len(owner), p))
    fold[np.arange(len(owner)), owner] = 1.0
    normal = F @ F.T + fold.T @ ((left.T @ left) * (right[d:].T @ right[d:])) @ fold
    size = np.sqrt(np.diag(normal))
    unread = size == 0
    size = np.where(unread, 1.0, size)
    values, vectors = np.linalg.eigh(normal / size[:, None] / size)
    inverse = np.where(values > _SINGULAR * values[-1], 1.0 / np.maximum(values, 1e-300), 0.0)
    theta, rest = np.zeros(p), whole
    for _ in range(_REFINE):
        side = F @ basis.skew(rest) + fold.T @ np.einsum("ik,ij,jk->k", left, rest[:, d:], right[d:], optimize=True)
        theta = theta + vectors @ (inverse * (vectors.T @ (side / size))) / size
        rest = whole - (left * theta[owner]) @ right.T
    misfit = basis.misfit(rest)
    spread = misfit * np.sqrt((vectors**2) @ inverse) / size
    return np.where(unread, 0.0, theta), np.where(unread, np.inf, spread), misfit


def _unpacked(
    stretch: _Stretch,
    events: list[_Event],
    lefts: list[Matrix],
    theta: Matrix,
    spread: Matrix,
    model: Matrix,
    misfit: float,
) -> _Fit:
    blocks, spreads, at = [], [], 0
    for event, w in zip(events, lefts, strict=True):
        n = w.shape[1]
        block, error = np.zeros((n, n)), np.full((n, n), np.inf)
        unread = stretch.place[event.number] == 0 and not event.merged
        for a, b in [] if unread else _pairs(n):
            block[a, b] = block[b, a] = theta[at]
            error[a, b] = error[b, a] = spread[at]
            at += 1
        at += n * stretch.watched.c if event.merged else 0  # the right factors, which nobody reads
        blocks.append(block)
        spreads.append(error)
    return _Fit(blocks, spreads, model, misfit)
