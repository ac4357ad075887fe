"""An attacker that sends nothing and takes its own rows for a public sample (Bertran et al. 2024)."""

from __future__ import annotations

import numpy as np

from exhume.attack import recover
from exhume.simulate.attackers._base import Attacker, Follow, Guess
from exhume.simulate.prober import PATIENCE, Prober

__all__ = ["ATTACKERS"]


def _passive(prober: Prober) -> Follow:
    s = prober.federation.scenario
    before = prober.head()
    public, rows = s.features[s.known], sum(map(len, s.parts))

    def follow(later: Prober) -> Guess | None:
        head = later.head()
        if head.serial == before.serial:
            for _ in range(PATIENCE):
                later.federation.background(later.rng)
            head = later.head()
        if head.serial == before.serial or np.array_equal(head.weights, before.weights):
            return None
        return Guess.of(
            recover.passive(before, head, features=public, rows=rows, gamma=s.gamma, nonnegative=s.nonnegative)
        )

    return follow


ATTACKERS = (Attacker("passive", "two heads and its own rows, nothing sent", _passive, quick=True),)
