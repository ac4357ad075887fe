"""The paper's designed probe in a basis of its own, so that a rule against repeated blocks does not know it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from exhume.attack import probes
from exhume.numerics import Matrix
from exhume.simulate.attackers._base import Attacker
from exhume.simulate.attackers._ways import by_difference, by_rank_one
from exhume.simulate.prober import Harvest, Prober

__all__ = ["ATTACKERS"]


def _designed(prober: Prober) -> Harvest:
    s = prober.federation.scenario

    def totals(scale: float) -> Sequence[Matrix]:
        # A new basis at every scale: a rule against repeated blocks finds them up to scale.
        basis = np.linalg.qr(prober.rng.standard_normal((s.d, s.d)))[0]
        return [basis @ total for total in probes.designed(s.d, s.classes, scale=scale).totals]

    return prober.moments(totals, "designed")


ATTACKERS = (
    Attacker("designed", "made-up moments of full rank, before and after", by_difference(_designed), quick=True),
    Attacker("rank-one", "the same before, one head after", by_rank_one(_designed), quick=True),
)
