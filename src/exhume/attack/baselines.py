"""Attacks of earlier work, in the same call shape, to compare with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from exhume.attack._linalg import Matrix
from exhume.attack.identify import Diagnostics, State
from exhume.attack.rank_one import RankOne, rank_one
from exhume.attack.session import Attack
from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.summary import Summary, Update

__all__ = ["burn", "passive"]


def passive(
    before: Head, after: Head, public: Matrix, rows: float, *, gamma: float = 0.0, nonnegative: bool = False
) -> RankOne:
    """Recover one deleted record from two heads and a public sample, sending nothing (the idea of Bertran et al. 2024).

    The hidden gram is replaced by that of an independent sample from the same distribution, scaled to the size of the
    training set, which the attacker must know roughly.

    Parameters
    ----------
    before, after
        The two heads around the deletion.
    public
        Features of the public sample.
    rows
        The size of the training set.
    gamma
        The ridge coefficient, if known; a small multiple of the mean eigenvalue keeps a short sample invertible.
    """
    if len(public) < 1 or not rows > 0:
        raise InputError("public, rows", "at least one public row and a positive training size", (len(public), rows))
    A = (public.T @ public) * (rows / len(public))
    A.flat[:: len(A) + 1] += max(gamma, 1e-6 * float(np.trace(A)) / len(A))
    d = len(A)
    nothing = Diagnostics(d, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)
    state = State(A, np.asarray(np.linalg.inv(A)), A @ before.weights, before, nothing)
    return rank_one(state, after, nonnegative=nonnegative)


def burn(attack: Attack, features: Matrix, labels: NDArray[np.intp], classes: int, *, times: float = 1.0) -> Head:
    """Ask for the deletion of rows that were never there and return the damaged head (the idea of Huang et al. 2025).

    A server without ownership checks subtracts them all the same. ``times`` deletes as many copies in one message; the
    server's own check that a head still exists bounds it.
    """
    if not times > 0:
        raise InputError("times", "above 0", times)
    one = Summary.of(features, labels, classes)
    return attack.submit(Update.deleting(Summary(one.gram * times, one.moment * times)))
