"""Heads below their own precision: many rounded responses to known changes, averaged back to one baseline.

Each response of a run satisfies ``A W_j = G + Z_j``, with a rounding error of its own. The mean equation gives the
baseline ``W_0 = mean(W_j) - A^-1 mean(Z_j)`` with that error averaged over all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from exhume.attack.recover.base import Recovered, Recovery
from exhume.attack.recover.rank_one import rank_one
from exhume.attack.state import State, alike
from exhume.attack.transcript import Transcript
from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol.head import Head

__all__ = ["RECOVERIES", "average_head", "averaged"]


def average_head(A: Matrix, transcript: Transcript) -> Head:
    """Return the baseline of a run, averaged over the baseline itself and all responses."""
    d, c = transcript.d, transcript.c
    share = 1.0 / (transcript.responses + 1)
    mean_X = transcript.X.reshape(d, -1, c).sum(axis=1) * share
    mean_Z = transcript.Z.reshape(d, -1, c).sum(axis=1) * share
    weights = transcript.baseline.weights + mean_X - cho_solve(cho_factor(A), mean_Z)
    return Head(weights, transcript.baseline.precision)


def averaged(
    before: State,
    after: Transcript,
    *,
    nonnegative: bool = False,
    rounds: int = 2,
    average: Callable[[Matrix, Transcript], Head] = average_head,
) -> Recovered:
    """Recover one deleted record from the state before it and a probe run after it.

    The run serves only to average its baseline; since the state after differs from the one before by the record itself,
    the average is repeated with the record found so far.

    Parameters
    ----------
    before
        The state before the deletion.
    after
        A probe run after it.
    nonnegative
        As in `rank_one`.
    rounds
        How often to average.
    average
        How to average: from a guess of A and the run to its head. A prober that has something standing takes it out.
    """
    before, after = alike(before, after)
    if rounds < 1:
        raise InputError("rounds", "at least 1", rounds)
    A = before.A
    for _ in range(rounds):
        found = rank_one(before, average(A, after), nonnegative=nonnegative)
        candidate = before.A - found.block.gram
        if np.linalg.eigvalsh(candidate)[0] <= 0:
            break
        A = candidate
    return found


RECOVERIES = (
    Recovery("averaged", "rank-one on the average of a whole probe run after the deletion", averaged, "transcript"),
)
