"""An attacker that sends and takes back what honest clients are about to send, so that they are refused."""

from __future__ import annotations

from exhume.simulate.attackers._base import Attacker, Follow
from exhume.simulate.prober import Prober

__all__ = ["ATTACKERS"]


def _front_run(prober: Prober) -> Follow:
    s = prober.federation.scenario
    name = prober.federation.attackers[0]
    for later in s.reserve:
        for row in later:
            draft = prober.adding(later[later == row])
            if prober.send(draft, name).accepted:
                prober.send(draft.undo(), name)
    return lambda later: None


ATTACKERS = (Attacker("front-running", "sends first what honest clients will send", _front_run, aim="burn"),)
