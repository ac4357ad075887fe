"""Attackers that average, and those that are told: the upper end of what any probing could give."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.linalg import solve_triangular

from exhume.attack.recover import average_head, rank_one
from exhume.attack.recover.informed import Candidates, read_change
from exhume.attack.state import State
from exhume.audit.advise.learning import Follow, Guess, Learn, estimate, guessed
from exhume.audit.advise.prober import Plan, Prober, Run
from exhume.errors import AttackError

__all__ = ["by_averages", "informed"]


def by_averages(know_A: bool, *, redraw: bool = False) -> Learn:
    """Draw fresh heads on both sides by adding known rows, average them back to one, whiten, read the record off.

    With ``redraw`` every message also takes the last rows back: noise that belongs to deletions is drawn again too.
    """

    def learn(prober: Prober) -> Follow:
        before = _many(prober, redraw)
        s = prober.federation.setting
        A = prober.federation.A if know_A else estimate(prober, before).A
        state = State.of(A, before.cleaned(A, average_head(A, before.transcript)))

        def follow(later: Prober) -> Guess:
            after, A_after = _many(later, redraw), A
            for _ in range(2):
                head = after.cleaned(A_after, average_head(A_after, after.transcript))
                found = rank_one(state, head, nonnegative=s.nonnegative)
                candidate = A - found.block.gram
                if np.linalg.eigvalsh(candidate)[0] <= 0:
                    break
                A_after = candidate
            return guessed(found)

        return follow

    return learn


def _many(prober: Prober, redraw: bool = False) -> Run:
    """Collect heads after additions of two held-out rows at a time: so many pairs that no message comes twice."""
    rows = prober.federation.setting.held_out
    plans = [prober.adding(prober.rng.choice(rows, 2, replace=False)) for _ in range(2 * prober.averaged)]
    if redraw:
        plans = [plans[0], *(Plan(new.add, old.add) for old, new in itertools.pairwise(plans))]
    found = prober.run(plans, "held_out", enough=prober.averaged)
    if found.responses == 0:
        raise AttackError("no head came back")
    return found


def informed(prober: Prober) -> Follow:
    """Be told A, or all that masked heads can ever tell; read the change by Bayes' rule over the attacker's rows."""
    s = prober.federation.setting
    rows = np.concatenate([s.own, s.held_out])
    told = prober.federation.masked_totals()
    if told is None:
        run = _many(prober)
        A = prober.federation.A
        weights = run.cleaned(A, average_head(A, run.transcript)).weights
    else:
        A, weights = told[0], np.asarray(np.linalg.solve(told[0], told[1]), dtype=np.float64)
    own = Candidates(A, weights, s.features[rows], s.labels[rows], s.classes)

    def follow(later: Prober) -> Guess:
        totals = later.federation.masked_totals()
        if told is not None and totals is not None:
            gram, moment = told[0] - totals[0], told[1] - totals[1]
            size, tau = later.federation.mask_noise()
            found = read_change(own, moment - gram @ weights, size, gram, tau)
        else:
            run = _many(later)
            head = run.cleaned(A, average_head(A, run.transcript)).weights
            moment = A @ (weights - head)
            # Noise far above the record: its size is that of what was seen.
            size = float(np.median(np.abs(solve_triangular(own.L, moment, lower=True)))) / 0.6745
            found = read_change(own, moment, size)
        return guessed(found)

    return follow
