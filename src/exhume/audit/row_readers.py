"""What a client makes of the two heads around somebody's deletion, with rows of its own and what its probes told.

The record left between ``pre`` and ``post``, and the attacker knows the state without it:
``A_post (W_pre - W_post) = f (e_k - W_pre' f)'`` exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from exhume.attack import recover
from exhume.attack.recover import Recovered
from exhume.attack.state import State
from exhume.attack.transcript import Transcript
from exhume.errors import ExhumeError
from exhume.numerics import Matrix, Rows
from exhume.protocol.head import Head

__all__ = ["RowReader", "readers_of", "stand_in"]

SMALLEST = 1e-6
"""Share of the mean eigenvalue that keeps the gram of few rows invertible, as in `recover.passive`."""


@dataclass(frozen=True)
class RowReader:
    """One way to read a deleted record from two heads."""

    name: str
    read: Callable[[Head, Head], Recovered]

    def __call__(self, pre: Head, post: Head) -> Recovered | None:
        """Return what it makes of a deletion; None where that is nothing."""
        try:
            return self.read(pre, post)
        except (ExhumeError, np.linalg.LinAlgError):
            return None


def readers_of(
    state: State | None, transcript: Transcript | None, features: Matrix, labels: Rows
) -> tuple[RowReader, ...]:
    """Return every way that an attacker has who sent these rows: by the state that it read, and by its rows alone."""
    positive = bool((features >= 0).all())
    found = []
    if state is not None:
        known = state

        def rank_one(pre: Head, post: Head) -> Recovered:
            return recover.rank_one(_about(known, pre, post), pre, nonnegative=positive)

        found.append(RowReader("rank-one", rank_one))
    A = stand_in(features, transcript)

    def passive(pre: Head, post: Head) -> Recovered:
        return recover.rank_one(_about(State.of(A, post), pre, post), pre, nonnegative=positive)

    def informed(pre: Head, post: Head) -> Recovered:
        return recover.informed(State.of(A, pre), post, features=features, labels=labels)

    return (*found, RowReader("passive", passive), RowReader("informed", informed))


def _about(state: State, pre: Head, post: Head) -> State:
    """Return the state for `recover.rank_one` when it is known without the record: the same change, seen from ``pre``.

    It reads ``A (W_0 - W_1) = f (e_k - W_1' f)'`` of a baseline W_0 and a later W_1. With ``W_1 = W_pre`` that is the
    equation above for ``W_0 = 2 W_pre - W_post``.
    """
    return replace(state, baseline=Head(2.0 * pre.weights - post.weights, pre.precision))


def stand_in(features: Matrix, transcript: Transcript | None) -> Matrix:
    """Return the gram of the attacker's rows, as large as its answers say that the hidden one is.

    Answers to known changes are ``X = A^-1 Z``. With ``A = s C`` the least-squares 1/s of ``X`` over ``C^-1 Z`` has no
    bias from noise in X. Without answers, or where they give no size, s is the number of rows.
    """
    C = features.T @ features / len(features)
    C.flat[:: len(C) + 1] += max(SMALLEST * float(np.trace(C)) / len(C), 1e-300)
    size = float(len(features))
    if transcript is not None and transcript.responses:
        answer = np.linalg.solve(C, transcript.Z)
        inverse = float(np.vdot(answer, transcript.X)) / max(float(np.vdot(answer, answer)), 1e-300)
        size = 1.0 / inverse if inverse > 0 else size
    return np.asarray(size * C)
