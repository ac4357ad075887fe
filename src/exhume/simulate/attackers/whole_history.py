"""Attackers that watch ordinary traffic before a deletion and after it, told all that happened but the deletion."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from exhume.attack import recover
from exhume.attack.recover.informed import Candidates
from exhume.attack.state import State
from exhume.numerics import Matrix
from exhume.protocol.head import Head
from exhume.simulate.attackers._base import Attacker, Follow, Guess, label_of_known, named
from exhume.simulate.prober import Prober

__all__ = ["ATTACKERS"]


def _misses(prober: Prober) -> Matrix:
    """Return by how much public heads miss the exact ones, on average over some traffic: their noise, averaged."""
    fed, found = prober.federation, []
    for _ in range(prober.averaged):
        fed.background(prober.rng)
        found.append(prober.head().weights - fed.server.ledger.head())
    return np.asarray(np.mean(found, axis=0))


def _change(before: Matrix, later: Prober) -> tuple[Matrix, Matrix]:
    """Return what heads say that the deletion changed, all other changes known, and the head after it."""
    fed = later.federation
    after, exact = _misses(later), fed.server.ledger.head()
    # The attacker knows the ledger but for the record: what is left of the public heads is the record and the noise.
    shown = exact + after
    with_record = fed.exact_with(later.target) + before
    return with_record - shown, shown


def _with_feature(prober: Prober) -> Follow:
    before, A = _misses(prober), prober.federation.A

    def follow(later: Prober) -> Guess:
        gap, shown = _change(before, later)
        factor, feature = cholesky(A, lower=True), later.feature()
        white = solve_triangular(factor, feature, lower=True)
        return named(later, label_of_known(factor.T @ gap, white, shown, feature))

    return follow


def _without_feature(prober: Prober) -> Follow:
    s, A = prober.federation.scenario, prober.federation.A
    before = _misses(prober)

    def follow(later: Prober) -> Guess:
        gap, shown = _change(before, later)
        state = State.of(A, Head(shown + gap))
        own = Candidates(A, state.baseline.weights, s.features[s.known], s.labels[s.known], s.classes)
        return Guess.of(recover.informed(state, Head(shown), own=own))

    return follow


ATTACKERS = (
    Attacker("history", "a whole history of heads, all else known; knows the feature", _with_feature, aim="label"),
    Attacker("history-blind", "the same without the feature: Bayes' rule over its own rows", _without_feature),
)
