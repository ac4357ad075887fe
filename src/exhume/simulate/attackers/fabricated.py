"""Rows that nobody has, one direction of a random basis each, as large as the server takes them."""

from __future__ import annotations

import math

import numpy as np

from exhume.errors import AttackError
from exhume.protocol.message import Batch
from exhume.simulate.attackers._base import Attacker
from exhume.simulate.attackers._ways import by_rank_one
from exhume.simulate.prober import Draft, Harvest, Prober

__all__ = ["ATTACKERS"]


def _fabricated(prober: Prober) -> Harvest:
    s = prober.federation.scenario
    size = float(np.linalg.norm(s.own[0], axis=1).mean())
    basis = np.linalg.qr(prober.rng.standard_normal((s.d, s.d)))[0]
    groups = np.array_split(basis, math.ceil(s.d / s.classes))
    for scale in (100 * size, 10 * size, size, 0.1 * size):
        drafts = [Draft(Batch(scale * rows, np.arange(len(rows)))) for rows in groups]
        trial = Draft(Batch(1.01 * scale * basis[: s.classes : 2], np.arange(-(-s.classes // 2))))
        if prober.takes([trial]):
            return prober.run(drafts, "fabricated")
    raise AttackError("the server refused every probe")


ATTACKERS = (Attacker("fabricated", "made-up rows, one head after", by_rank_one(_fabricated)),)
