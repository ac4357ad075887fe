"""One identity more than planned for: they delete in turn, so that noise which belongs to deletions is redrawn."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from exhume.errors import AttackError
from exhume.numerics import Matrix
from exhume.protocol.message import Batch
from exhume.simulate.attackers._base import Attacker, Follow, Guess, label_of_known, named
from exhume.simulate.prober import Draft, Prober

__all__ = ["ATTACKERS"]

LIGHT = 1e-3
"""Scale of the rows that come and go: they move nothing to speak of."""


def _mean_head(prober: Prober) -> Matrix:
    """Return the mean of the heads after deletions of weightless rows, by all identities in turn."""
    s = prober.federation.scenario
    names = (*prober.federation.attackers, prober.federation.spare)
    heads = []
    for turn in range(prober.averaged):
        row = prober.rng.choice(s.held_out, 1)
        batch = Batch(LIGHT * s.features[row], s.labels[row])
        name = names[turn % len(names)]
        if prober.send(Draft(batch), name).accepted:
            receipt = prober.send(Draft(None, batch), name)
            if receipt.head is not None:
                heads.append(receipt.head.weights)
    if not heads:
        raise AttackError("no head came back")
    return np.asarray(np.mean(heads, axis=0))


def _pump(prober: Prober) -> Follow:
    before, A = _mean_head(prober), prober.federation.A

    def follow(later: Prober) -> Guess:
        after, feature = _mean_head(later), later.feature()
        factor = cholesky(A, lower=True)
        change = factor.T @ (before - after)
        return named(later, label_of_known(change, solve_triangular(factor, feature, lower=True), after, feature))

    return follow


ATTACKERS = (Attacker("fold-pump", "one identity more deletes in turn; told A, knows the feature", _pump, aim="label"),)
