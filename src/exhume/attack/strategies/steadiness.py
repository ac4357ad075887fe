"""The server's own arithmetic, measured by repeating what is known: one own row added, and deleted again.

A server that keeps its sums in float32, or solves in it, answers with an error of its own, which heads do not tell.
Adding a row (f, k) shows it: ``A (W_1 - W_0) = f (e_k - W_1' f)'`` exactly, both sides are known, and what they differ
by is the error that the deletion of somebody's record has too. Deleting it again shows what does not come back.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import solve_triangular

from exhume.attack.session import Attack
from exhume.attack.state import State, alike
from exhume.errors import InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.head import Head
from exhume.protocol.summary import Summary, Update

__all__ = ["steadied"]


def steadied(attack: Attack, state: State, features: Matrix, labels: Rows, *, rounds: int = 5) -> State:
    """Return a state that knows the server's own arithmetic (`State.noise`), and has its present head as baseline.

    Parameters
    ----------
    attack
        The malicious client.
    state
        The present state, as identified.
    features, labels
        Rows of its own, of which one is added and deleted each time.
    rounds
        How often: two messages each.
    """
    if not 1 <= rounds <= len(labels):
        raise InputError("rounds", f"from 1 to the number of rows, {len(labels)}", rounds)
    L = np.asarray(np.linalg.cholesky(state.A))
    start, gaps = alike(state, attack.observe())[1], []
    for f, k in zip(features[:rounds], labels[:rounds], strict=True):
        one = Update.adding(Summary.of(f[None], [k], state.c))
        added = alike(state, attack.submit(one))[1]
        back = alike(state, attack.submit(one.undo()))[1]
        gaps += [_misfit(L, start, added, f, int(k)), float(np.linalg.norm(L.T @ (back.weights - start.weights)))]
        start = back
    # Of each pair the larger: an addition and its deletion may well cancel their errors.
    noise = float(np.sqrt(np.mean(np.square(np.reshape(gaps, (-1, 2)).max(axis=1)))))
    return replace(state, noise=max(state.noise, noise), baseline=start, G=state.A @ start.weights)


def _misfit(L: Matrix, before: Head, after: Head, feature: Matrix, label: int) -> float:
    """Return by how much the answer to a known row misses its equation, whitened."""
    right = -after.weights.T @ feature
    right[label] += 1.0
    told = np.outer(solve_triangular(L, feature, lower=True), right)
    return float(np.linalg.norm(L.T @ (after.weights - before.weights) - told))
