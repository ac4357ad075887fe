"""Made-up Gaussian moments, before and after."""

from __future__ import annotations

from exhume.attack import probes
from exhume.simulate.attackers._base import Attacker
from exhume.simulate.attackers._ways import by_difference
from exhume.simulate.prober import Harvest, Prober

__all__ = ["ATTACKERS"]


def _random(prober: Prober) -> Harvest:
    s = prober.federation.scenario
    return prober.moments(lambda scale: probes.random(s.d, s.classes, scale=scale, rng=prober.rng).totals, "random")


ATTACKERS = (Attacker("random", "made-up Gaussian moments, before and after", by_difference(_random)),)
