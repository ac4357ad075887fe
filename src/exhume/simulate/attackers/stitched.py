"""An attacker that needs no quiet interval: it watches everybody's broadcasts and fits their changes with the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from exhume.attack import probes, recover
from exhume.attack.state import State
from exhume.attack.strategies.watch import read
from exhume.attack.watched import Watched, Watcher, same_broadcast
from exhume.errors import AttackError
from exhume.protocol.head import Head
from exhume.simulate.attackers._base import Attacker, Follow, Guess, guess_of_A, public_head
from exhume.simulate.prober import SCALES, Draft, Prober

__all__ = ["ATTACKERS", "watched_run"]


def _stitched(prober: Prober) -> Follow:
    seen = read(watched_run(prober), guess=guess_of_A(prober), nonnegative=prober.federation.scenario.nonnegative)
    head = seen.watched.broadcasts[-1].head
    state = replace(State.of(seen.now, head), diagnostics=seen.state.diagnostics)

    def follow(later: Prober) -> Guess:
        after = public_head(later, state.A, head.serial)
        return Guess.of(recover.rank_one(state, after, nonnegative=later.federation.scenario.nonnegative))

    return follow


def watched_run(prober: Prober) -> Watched:
    """Send a probe that the server takes, note every broadcast with it, and take it back."""
    drafts = _drafts(prober)
    watcher = Watcher(prober.head())

    def others(head: Head) -> None:
        if not same_broadcast(head, watcher.last):
            watcher.heard(head, own=False)

    prober.on_others = others
    standing: list[tuple[str, Draft]] = []
    try:
        for draft in drafts:
            receipt = prober.send(draft)
            if receipt.accepted:
                standing.append((receipt.client, draft))
                _heard(prober, watcher)
        for name in dict.fromkeys(name for name, _ in standing):
            mine = [draft for own, draft in standing if own == name]
            if prober.send(Draft.joined(mine).undo(), name).accepted:
                _heard(prober, watcher)
    finally:
        prober.on_others = None
    found = watcher.watched()
    if not found.answers:
        raise AttackError("no head came back")
    return found


def _heard(prober: Prober, watcher: Watcher) -> None:
    watcher.sent(prober.last_sent)
    head = prober.head()
    if not same_broadcast(head, watcher.last):
        watcher.heard(head, own=True)


def _drafts(prober: Prober) -> Sequence[Draft]:
    """Return moments with a spare class in a basis of their own where the server takes them, else own new rows."""
    s = prober.federation.scenario
    for scale in SCALES:
        basis = np.linalg.qr(prober.rng.standard_normal((s.d, s.d)))[0]
        totals = [basis @ total for total in probes.designed(s.d, s.classes, scale=scale, spare=1).totals]
        before = [np.zeros_like(totals[0]), *totals[:-1]]
        drafts = [Draft.moment(b - a) for a, b in zip(before, totals, strict=True)]
        if prober.takes(drafts[:1]):
            return drafts
    return prober.own_drafts(s.held_out, 2 * -(-s.d // s.classes))


ATTACKERS = (
    Attacker(
        "stitched", "watches everybody's broadcasts, needs no quiet interval; one head after", _stitched, quick=True
    ),
)
