"""The two ways from a probe to a record: identify twice and subtract, or identify once and read the next head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from exhume.attack import recover
from exhume.simulate.attackers._base import Follow, Guess, Learn, best_estimate, public_head
from exhume.simulate.prober import Harvest, Prober

__all__ = ["Probing", "by_difference", "by_rank_one"]

Probing = Callable[[Prober], Harvest]
"""One probe sequence through a prober."""


def by_difference(probe: Probing) -> Learn:
    """Identify before and after; subtract (the paper's attack)."""

    def learn(prober: Prober) -> Follow:
        before = best_estimate(prober, probe(prober))
        return lambda later: Guess.of(recover.difference(before, best_estimate(later, probe(later))))

    return learn


def by_rank_one(probe: Probing) -> Learn:
    """Identify before; read the record off the next head."""

    def learn(prober: Prober) -> Follow:
        state = best_estimate(prober, probe(prober))
        serial = prober.head().serial
        if prober.federation.known.exact or not prober.clean:
            state = replace(state, baseline=public_head(prober, state.A, None if prober.clean else serial))
            serial = prober.head().serial

        def follow(later: Prober) -> Guess:
            nonnegative = later.federation.scenario.nonnegative
            return Guess.of(recover.rank_one(state, public_head(later, state.A, serial), nonnegative=nonnegative))

        return follow

    return learn
