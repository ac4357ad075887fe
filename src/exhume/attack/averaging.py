"""Heads below their own precision: many rounded responses to known changes, averaged back to one baseline.

Each response of a run satisfies ``A W_j = G + Z_j``, with a rounding error of its own. The mean equation gives the
baseline ``W_0 = mean(W_j) - A^-1 mean(Z_j)`` with that error averaged over all of them.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from exhume.attack._linalg import Matrix
from exhume.attack.identify import State
from exhume.attack.rank_one import RankOne, rank_one
from exhume.attack.transcript import Transcript
from exhume.protocol.head import Head

__all__ = ["average_head", "rank_one_averaged"]


def average_head(A: Matrix, transcript: Transcript) -> Head:
    """Return the baseline of a run, averaged over the baseline itself and all responses."""
    d, c = transcript.d, transcript.c
    share = 1.0 / (transcript.responses + 1)
    mean_X = transcript.X.reshape(d, -1, c).sum(axis=1) * share
    mean_Z = transcript.Z.reshape(d, -1, c).sum(axis=1) * share
    weights = transcript.baseline.weights + mean_X - cho_solve(cho_factor(A), mean_Z)
    return Head(weights, transcript.baseline.precision)


def rank_one_averaged(state: State, after: Transcript, *, nonnegative: bool = False, rounds: int = 2) -> RankOne:
    """Recover one deleted record from the state before it and a probe run after it.

    The run serves only to average its baseline; since the state after differs from the one before by the record itself,
    the average is repeated with the record found so far.
    """
    A = state.A
    for _ in range(rounds):
        found = rank_one(state, average_head(A, after), nonnegative=nonnegative)
        candidate = state.A - np.outer(found.feature, found.feature)
        if np.linalg.eigvalsh(candidate)[0] <= 0:
            break
        A = candidate
    return found
