"""An attacker that needs no quiet interval: it watches everybody's broadcasts and fits their changes with the state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from exhume.attack import probes, recover
from exhume.attack.state import State
from exhume.attack.strategies.watch import read
from exhume.attack.watched import Watcher
from exhume.errors import AttackError
from exhume.numerics import Matrix
from exhume.simulate.attackers._base import Attacker, Follow, Guess, guess_of_A, public_head
from exhume.simulate.prober import Prober

__all__ = ["ATTACKERS"]


def _stitched(prober: Prober) -> Follow:
    s = prober.federation.scenario
    prober.watcher = watcher = Watcher(prober.head())
    try:
        _probe(prober)
    finally:
        prober.watcher = None
    guess = guess_of_A(prober)
    try:
        # What the server would not let the attacker take back stands in every later head.
        A = read(watcher.watched(), guess=guess, nonnegative=s.nonnegative).now + watcher.total.gram
    except (AttackError, np.linalg.LinAlgError):  # noise fits no state: its own rows are the next best
        A = guess
    state = State.of(A, prober.head())
    serial = prober.head().serial

    def follow(later: Prober) -> Guess:
        after = public_head(later, state.A, serial)
        return Guess.of(recover.rank_one(state, after, nonnegative=s.nonnegative))

    return follow


def _probe(prober: Prober) -> None:
    """Send moments with a spare class, in a basis of their own, where the server takes them; else own new rows."""
    s = prober.federation.scenario

    def totals(scale: float) -> Sequence[Matrix]:
        basis = np.linalg.qr(prober.rng.standard_normal((s.d, s.d)))[0]
        return [basis @ total for total in probes.designed(s.d, s.classes, scale=scale, spare=1).totals]

    try:
        prober.moments(totals, "stitched")
    except AttackError:
        prober.run(prober.own_drafts(s.held_out, 2 * -(-s.d // s.classes)), "stitched")


ATTACKERS = (
    Attacker(
        "stitched", "watches everybody's broadcasts, needs no quiet interval; one head after", _stitched, quick=True
    ),
)
