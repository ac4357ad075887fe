"""What an estimator is: a function from a transcript to a state; and the guess that one may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from exhume.attack._linalg import single_entries
from exhume.attack.coordinates import Coordinates
from exhume.attack.state import Diagnostics, State
from exhume.attack.transcript import Transcript
from exhume.errors import InputError, NotIdentifiedError
from exhume.numerics import DENOMINATOR_FLOOR, Matrix
from exhume.protocol.head import Head
from exhume.registry import call

__all__ = [
    "MIXED_FROM",
    "MIXTURES",
    "READ_OFF_ALONE_FROM",
    "READ_OFF_FROM",
    "Estimator",
    "arithmetic_noise",
    "mixtures",
    "solving",
    "within",
]

READ_OFF_FROM = 2048
"""From so many features on `direct` and `symmetric` read a designed probe off. The paper's tables are all below."""

READ_OFF_ALONE_FROM = 4096
"""From so many features on a designed probe that cannot be read off is not identified: Algorithm 1, which would fail by
the same test, takes twice the memory and minutes to say so."""

MIXED_FROM = 256
"""From so many features on, norms that only say how far to trust an estimate are taken of mixtures of columns."""

MIXTURES = 64
"""Of so many."""


@dataclass(frozen=True)
class Estimator:
    """One entry of the registry.

    Attributes
    ----------
    name, about
        Name and one line for people.
    estimate
        ``estimate(transcript, *, ...) -> State``. It asks by name for what it uses of what an attacker knows: the rank
        ``tolerance``, and ``guess``, a rough positive definite guess of A.
    """

    name: str
    about: str
    estimate: Callable[..., State]

    def __call__(self, transcript: Transcript, **knowledge: object) -> State:
        """Estimate, with those of the facts that this estimator asks for."""
        return call(self.estimate, self.name, transcript, knowledge=knowledge)


def within(transcript: Transcript, estimate: Callable[[Transcript, Coordinates | None], State]) -> State:
    """Estimate in the live coordinates of a run and their units; return the state in all coordinates as they are."""
    at = transcript.coordinates
    if at is None:
        return estimate(transcript, None)
    try:
        found = estimate(transcript.reduced(), at)
    except NotIdentifiedError as error:
        if at.whole:
            raise
        dead = f"{at.d - len(at.live)} of {at.d} coordinates are zero in all own rows and left out"
        raise NotIdentifiedError(f"{error.reason}; {dead}", error.diagnostics) from error
    return restored(found, at)


def restored(found: State, at: Coordinates) -> State:
    """Return a state of live coordinates in their units as one of all coordinates as they are.

    Its A and H take the place of the old ones, which are gone: of many features there is no room for both.
    """
    t, start = at.units[:, None], found.baseline
    A, H = found.A, found.H
    for units in (t, t.T):
        A *= units
        H /= units
    return replace(
        found,
        A=A if at.whole else at.spread_square(A),
        H=H if at.whole else at.spread_square(H),
        G=at.spread(found.G * t),
        baseline=Head(at.spread(start.weights / t), start.precision, start.serial),
        live=None if at.whole else at.live,
    )


def mixtures(transcript: Transcript) -> tuple[Matrix, Matrix, Matrix]:
    """Return X, Z and the heads, each times one matrix whose expected outer product is the identity.

    From `MIXED_FROM` features on it has `MIXTURES` columns of random signs over the root of their number, so that the
    squared Frobenius norm of ``M X`` is right in expectation for any M, with a standard deviation of at most
    ``sqrt(2 / MIXTURES)`` of it; below, it is the identity itself. The signs are the same in every run.
    """
    d, columns = transcript.X.shape
    start, answers = transcript.baseline.weights, columns // transcript.c
    if d < MIXED_FROM:
        return transcript.X, transcript.Z, np.tile(start, answers) + transcript.X
    signs = _signs(columns)
    X = transcript.X @ signs
    return X, _mixed(transcript.Z, signs), start @ signs.reshape(answers, transcript.c, MIXTURES).sum(axis=0) + X


def _mixed(Z: Matrix, signs: Matrix) -> Matrix:
    entries = single_entries(Z)
    if entries is not None:
        return entries @ signs
    mixed = np.zeros((len(Z), signs.shape[1]))
    for j in range(0, len(signs), MIXED_FROM):  # Z may be a view of less memory than it shows
        mixed += Z[:, j : j + MIXED_FROM] @ signs[j : j + MIXED_FROM]
    return mixed


@lru_cache(maxsize=2)
def _signs(columns: int) -> Matrix:
    """Return the random signs that mix so many columns, the same for every run of a campaign."""
    signs = np.random.default_rng(columns).integers(0, 2, (columns, MIXTURES)) * 2.0 - 1.0
    signs /= np.sqrt(MIXTURES)
    signs.flags.writeable = False
    return np.asarray(signs, dtype=np.float64)


def arithmetic_noise(transcript: Transcript, whiten: Callable[[Matrix], Matrix], H: Matrix) -> float:
    """Return the error of the change between two heads like the baseline, whitened by A, as the run itself shows it.

    Two measures, of which the larger counts. Symmetric H has d(d+1)/2 unknowns and the run d N answers: what is left of
    ``X - H Z`` is the error of the heads, their rounding and the server's own arithmetic together, in proportion to
    their size. And the head after the cancellation should be the baseline: by what it is off, sums that round are.
    """
    d, columns = transcript.X.shape
    start = transcript.baseline.weights
    undone = 0.0 if transcript.final is None else float(np.linalg.norm(whiten(transcript.final.weights - start)))
    if columns <= (d + 1) / 2:
        return undone
    X, Z, heads = mixtures(transcript)
    left, size = float(np.linalg.norm(whiten(X - H @ Z))), float(np.linalg.norm(whiten(heads)))
    relative = left / max(size, DENOMINATOR_FLOOR) * float(np.sqrt(2.0 * columns / (columns - (d + 1) / 2)))
    return max(undone, relative * float(np.linalg.norm(whiten(start))))


@contextmanager
def solving(found: Diagnostics | None = None) -> Iterator[None]:
    """Turn a failed factorisation into a `NotIdentifiedError` with the numbers so far."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise NotIdentifiedError(f"unstable: {error}", found) from error


def gram_guess(features: Matrix, rows: float | None = None) -> Matrix:
    """Return a guess of A without a single probe: from the attacker's own rows, scaled to ``rows`` rows if given."""
    if features.ndim != 2 or len(features) < 1:
        raise InputError("features", "a two-dimensional array of at least one row", f"shape {features.shape}")
    guess = features.T @ features
    guess.flat[:: len(guess) + 1] += 1e-3 * np.trace(guess) / len(guess)
    return guess if rows is None else guess * (rows / len(features))
