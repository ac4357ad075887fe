"""The attacker's real features, added under one label and deleted under another."""

from __future__ import annotations

import numpy as np

from exhume.attack import probes
from exhume.protocol.message import Batch
from exhume.simulate.attackers._base import Attacker
from exhume.simulate.attackers._ways import by_rank_one
from exhume.simulate.prober import Draft, Harvest, Prober

__all__ = ["ATTACKERS"]


def _label_swap(prober: Prober) -> Harvest:
    s = prober.federation.scenario
    probe = probes.label_swap(s.own[0], s.classes)
    c = s.classes - 1
    drafts = [Draft(Batch(f, np.arange(c)), Batch(f, np.full(c, c))) for f in (probe.features[r] for r in probe.rows)]
    if not prober.takes(drafts[:1]):
        drafts = [part for draft in drafts for part in draft.split()]
    return prober.run(drafts, "label-swap")


ATTACKERS = (Attacker("label-swap", "real features under swapped labels, one head after", by_rank_one(_label_swap)),)
