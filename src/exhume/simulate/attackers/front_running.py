"""An attacker that adds and takes back what honest clients are about to add or delete, so that they are refused."""

from __future__ import annotations

from exhume.simulate.attackers._base import Attacker, Follow
from exhume.simulate.prober import Prober

__all__ = ["ATTACKERS"]


def _wait(prober: Prober) -> Follow:
    return _front_run


def _front_run(later: Prober) -> None:
    """Add the rows that come or go next, whole and row by row, and take each back."""
    batch, name = later.upcoming, later.federation.attackers[0]
    for rows in (batch, *batch[:, None]) if len(batch) else ():
        draft = later.adding(rows)
        if later.send(draft, name).accepted:
            later.send(draft.undo(), name)


ATTACKERS = (Attacker("front-running", "sends first what honest clients will send", _wait, aim="burn"),)
