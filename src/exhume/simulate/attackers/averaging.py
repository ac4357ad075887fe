"""Attackers that average many heads on both sides of a deletion; two of them are told the state."""

from __future__ import annotations

import itertools

import numpy as np

from exhume.attack import recover
from exhume.attack.state import State
from exhume.errors import AttackError
from exhume.simulate.attackers._base import Attacker, Follow, Guess, Learn, best_estimate
from exhume.simulate.prober import Draft, Harvest, Prober

__all__ = ["ATTACKERS", "many_heads"]


def by_averages(*, told: bool, redraw: bool = False) -> Learn:
    """Draw fresh heads on both sides by adding known rows, average them back to one, whiten, read the record off.

    With ``redraw`` every message also takes the last rows back: noise that belongs to deletions is drawn again too.
    """

    def learn(prober: Prober) -> Follow:
        before = many_heads(prober, redraw)
        A = prober.federation.A if told else best_estimate(prober, before).A
        state = State.of(A, before.cleaned(A, recover.average_head(A, before.transcript)))
        nonnegative = prober.federation.scenario.nonnegative

        def follow(later: Prober) -> Guess:
            after, A_after = many_heads(later, redraw), A
            for _ in range(2):
                head = after.cleaned(A_after, recover.average_head(A_after, after.transcript))
                found = recover.rank_one(state, head, nonnegative=nonnegative)
                assert found.feature is not None
                candidate = A - np.outer(found.feature, found.feature)
                if np.linalg.eigvalsh(candidate)[0] <= 0:
                    break
                A_after = candidate
            return Guess.of(found)

        return follow

    return learn


def many_heads(prober: Prober, redraw: bool = False) -> Harvest:
    """Collect heads after additions of two held-out rows at a time: so many pairs that no message comes twice."""
    rows = prober.federation.scenario.held_out
    drafts = [prober.adding(prober.rng.choice(rows, 2, replace=False)) for _ in range(2 * prober.averaged)]
    if redraw:
        drafts = [drafts[0], *(Draft(new.add, old.add) for old, new in itertools.pairwise(drafts))]
    found = prober.run(drafts, "held-out", enough=prober.averaged)
    if found.responses == 0:
        raise AttackError("no head came back")
    return found


ATTACKERS = (
    Attacker("averaging", "many heads averaged on both sides", by_averages(told=False), quick=True),
    Attacker("oracle", "the same, told the state before", by_averages(told=True), quick=True),
    Attacker("redraw", "the same, and noise of deletions drawn again", by_averages(told=True, redraw=True)),
)
