"""An attacker that is told A, or all that masked heads can ever tell, and reads the change by Bayes' rule."""

from __future__ import annotations

import numpy as np

from exhume.attack import recover
from exhume.attack.recover.informed import Candidates
from exhume.attack.state import State
from exhume.defence.release import mask_of
from exhume.numerics import Matrix
from exhume.protocol.head import Head
from exhume.simulate.attackers._base import Attacker, Follow, Guess
from exhume.simulate.attackers.averaging import many_heads
from exhume.simulate.prober import Prober

__all__ = ["ATTACKERS"]


def _informed(prober: Prober) -> Follow:
    s = prober.federation.scenario
    before = _masked(prober) or _averaged(prober, prober.federation.A)
    own = Candidates(before.A, before.baseline.weights, s.features[s.known], s.labels[s.known], s.classes)

    def follow(later: Prober) -> Guess:
        mask, after = mask_of(later.federation.server.release), _masked(later)
        if mask is not None and after is not None:
            size, tau = mask.deletion_noise(s.d)
            return Guess.of(recover.informed(before, after, own=own, size=size, tau=tau))
        return Guess.of(recover.informed(before, _averaged(later, before.A).baseline, own=own))

    return follow


def _masked(prober: Prober) -> State | None:
    """Return the masked totals as a state, which is all that heads can ever tell; None without a mask."""
    server = prober.federation.server
    mask = mask_of(server.release)
    if mask is None:
        return None
    A, G = mask.masked_totals(server.ledger)
    return State.of(A, Head(np.asarray(np.linalg.solve(A, G), dtype=np.float64)))


def _averaged(prober: Prober, A: Matrix) -> State:
    run = many_heads(prober)
    return State.of(A, run.cleaned(A, recover.average_head(A, run.transcript)))


ATTACKERS = (Attacker("informed", "told the state or the masked totals; Bayes' rule over its own rows", _informed),)
