"""Recovery without a message: a public sample stands in for the hidden gram (the idea of Bertran et al. 2024)."""

from __future__ import annotations

import numpy as np

from exhume.attack.recover.base import Recovered, Recovery
from exhume.attack.recover.rank_one import rank_one
from exhume.attack.state import State, alike, check_sizes
from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol.head import Head

__all__ = ["RECOVERIES", "passive"]


def passive(
    before: State | Head,
    after: Head,
    *,
    features: Matrix,
    rows: float,
    gamma: float = 0.0,
    nonnegative: bool = False,
) -> Recovered:
    """Recover one deleted record from two heads and a public sample, sending nothing.

    The hidden gram is replaced by that of an independent sample from the same distribution, scaled to the size of the
    training set, which the attacker must know roughly.

    Parameters
    ----------
    before, after
        The two heads around the deletion; of a state before, only its head is used.
    features
        Features of the public sample.
    rows
        The size of the training set.
    gamma
        The ridge coefficient, if known; a small multiple of the mean eigenvalue keeps a short sample invertible.
    nonnegative
        As in `rank_one`.
    """
    check_sizes(before, after)
    if isinstance(before, State):
        before, after = alike(before, after)
    if len(features) < 1 or not rows > 0:
        raise InputError(
            "features, rows", "at least one public row and a positive training size", (len(features), rows)
        )
    if features.ndim != 2 or features.shape[1] != after.d:
        raise InputError("features", f"rows of {after.d} features", f"shape {features.shape}")
    A = (features.T @ features) * (rows / len(features))
    A.flat[:: len(A) + 1] += max(gamma, 1e-6 * float(np.trace(A)) / len(A))
    head = before.baseline if isinstance(before, State) else before
    return rank_one(State.of(A, head), after, nonnegative=nonnegative)


RECOVERIES = (Recovery("passive", "one record from two heads and a public sample, no message sent", passive, "head"),)
