"""The attacks of the matrix: each learns what it can before a deletion, then says what was deleted.

An attack is a function of the attacker (a `Prober`) that returns what it makes of a deletion later on; what it knows of
hidden values is nothing, but for `oracle`, `redraw` and `informed`, which are told A (`informed`: the masked totals
where there is a mask): the upper end of what any probing could give them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from exhume.attack.baselines import passive
from exhume.attack.block import Block
from exhume.attack.conditioned import conditioned
from exhume.attack.probes import designed, label_swap, random
from exhume.attack.rank_one import rank_one
from exhume.attack.recover import difference
from exhume.attack.symmetric import identify_symmetric
from exhume.audit.advise.averages import by_averages, informed
from exhume.audit.advise.learning import Follow, Guess, Learn, estimate, guess_of_A
from exhume.audit.advise.prober import Plan, Prober, Run
from exhume.defence.admission import Batch
from exhume.errors import AttackError, NotIdentifiedError
from exhume.numerics import Matrix
from exhume.protocol import Head

__all__ = ["ATTACKS", "Follow", "Guess"]


def _sample(block: Block) -> Guess:
    sample = block.as_sample()
    return Guess(sample.label, sample.feature, block)


def _by_difference(probe: Callable[[Prober], Run]) -> Learn:
    """Identify before and after; subtract (the paper's attack)."""

    def learn(prober: Prober) -> Follow:
        before = estimate(prober, probe(prober))
        return lambda later: _sample(difference(before, estimate(later, probe(later))))

    return learn


def _by_rank_one(probe: Callable[[Prober], Run]) -> Learn:
    """Identify before; read the record off the next head."""

    def learn(prober: Prober) -> Follow:
        state = estimate(prober, probe(prober))
        serial = prober.head().serial
        if prober.federation.defence.exact or not prober.clean:
            state = replace(state, baseline=_public(prober, state.A, None if prober.clean else serial))
            serial = prober.head().serial

        def follow(later: Prober) -> Guess:
            s = later.federation.setting
            found = rank_one(state, _public(later, state.A, serial), nonnegative=s.nonnegative)
            return Guess(found.label, found.feature, found.block(s.classes))

        return follow

    return learn


def _public(prober: Prober, A: Matrix, since: int | None) -> Head:
    """Return a head newer than ``since``, less what the attacker added to bring it about."""
    head, own = prober.provoke(since)
    if own.is_zero:
        return head
    return Head(head.weights - np.linalg.solve(A, own.moment - own.gram @ head.weights), head.precision)


def _designed(prober: Prober) -> Run:
    s = prober.federation.setting

    def totals(scale: float) -> Sequence[Matrix]:
        # A new basis at every scale: a rule against repeated blocks finds them up to scale.
        basis = np.linalg.qr(prober.rng.standard_normal((s.d, s.d)))[0]
        return [basis @ total for total in designed(s.d, s.classes, scale=scale).totals]

    return prober.moments(totals, "designed")


def _random(prober: Prober) -> Run:
    s = prober.federation.setting
    return prober.moments(lambda scale: random(s.d, s.classes, scale=scale, rng=prober.rng).totals, "random")


def _label_swap(prober: Prober) -> Run:
    s = prober.federation.setting
    probe = label_swap(s.features[s.own], s.classes)
    c = s.classes - 1
    plans = [Plan(Batch(f, np.arange(c)), Batch(f, np.full(c, c))) for f in (probe.features[r] for r in probe.rows)]
    if not prober.takes(plans[:1]):
        plans = [part for plan in plans for part in plan.split()]
    return prober.run(plans, "label_swap")


def _own(prober: Prober) -> Run:
    s = prober.federation.setting
    return prober.run(prober.own_plans(s.own, 2 * math.ceil(s.d / s.classes)), "own_data")


def _held_out(prober: Prober) -> Run:
    s = prober.federation.setting
    return prober.run(prober.own_plans(s.held_out, 2 * math.ceil(s.d / s.classes)), "held_out")


def _fabricated(prober: Prober) -> Run:
    """Add rows that nobody has, one direction of a random basis each, as large as the server takes them."""
    s = prober.federation.setting
    size = float(np.linalg.norm(s.features[s.own], axis=1).mean())
    basis = np.linalg.qr(prober.rng.standard_normal((s.d, s.d)))[0]
    groups = np.array_split(basis, math.ceil(s.d / s.classes))
    for scale in (100 * size, 10 * size, size, 0.1 * size):
        plans = [Plan(Batch(scale * rows, np.arange(len(rows))), None) for rows in groups]
        trial = Plan(Batch(1.01 * scale * basis[: s.classes : 2], np.arange(-(-s.classes // 2))), None)
        if prober.takes([trial]):
            return prober.run(plans, "fabricated")
    raise AttackError("the server refused every probe")


def _conditioned(prober: Prober) -> Follow:
    """Probe with a guess of the state, then with the answer; compare moments found by centring the head (zoom)."""
    s = prober.federation.setting
    guess = guess_of_A(prober)
    for _ in range(2):

        def totals(scale: float, at: Matrix = guess) -> Sequence[Matrix]:
            return conditioned(at, s.classes, scale=scale).totals

        run = prober.moments(totals, "conditioned")
        try:
            guess = identify_symmetric(run.transcript, metric=guess).A
        except (NotIdentifiedError, np.linalg.LinAlgError):
            break
    before = _zoom(prober, guess, guess @ prober.head().weights)

    def follow(later: Prober) -> Guess:
        moment = before - _zoom(later, guess, before)
        return _sample(_one_record(moment))

    return follow


def _zoom(prober: Prober, A: Matrix, start: Matrix) -> Matrix:
    """Return the present moment, by submitting minus the known part and reading the rest; unchanged where refused."""
    G, standing = start.copy(), np.zeros_like(start)
    for _ in range(4):
        before = prober.head().serial
        if not prober.send(Plan.moment(-G - standing), prober.federation.attackers[0]).accepted:
            break
        standing = -G.copy()
        if prober.head().serial == before:
            break
        rest = A @ prober.head().weights
        if not np.isfinite(rest).all() or np.linalg.norm(rest) > 10 * np.linalg.norm(start):
            break
        G = G + rest
    if standing.any():
        prober.send(Plan.moment(-standing), prober.federation.attackers[0])
    else:
        G = A @ prober.head().weights
    return G


def _one_record(moment: Matrix) -> Block:
    sample = Block(np.zeros((len(moment), len(moment))), moment).as_sample()
    return Block(np.outer(sample.feature, sample.feature), moment)


def _passive(prober: Prober) -> Follow:
    """Send nothing; take the attacker's own rows for a public sample."""
    s = prober.federation.setting
    before = prober.head()
    public = s.features[np.concatenate([s.own, s.held_out])]
    rows = sum(map(len, s.honest)) + len(s.own)

    def follow(later: Prober) -> Guess | None:
        head = later.head()
        if head.serial == before.serial:
            for _ in range(12):
                later.federation.background(later.rng)
            head = later.head()
        if head.serial == before.serial or np.array_equal(head.weights, before.weights):
            return None
        found = passive(before, head, public, rows, gamma=s.gamma, nonnegative=s.nonnegative)
        return Guess(found.label, found.feature, found.block(s.classes))

    return follow


ATTACKS: dict[str, Learn] = {
    "designed": _by_difference(_designed),
    "random": _by_difference(_random),
    "label-swap": _by_rank_one(_label_swap),
    "own-data": _by_difference(_own),
    "held-out": _by_rank_one(_held_out),
    "fabricated": _by_rank_one(_fabricated),
    "rank-one": _by_rank_one(_designed),
    "averaging": by_averages(know_A=False),
    "conditioned": _conditioned,
    "oracle": by_averages(know_A=True),
    "redraw": by_averages(know_A=True, redraw=True),
    "informed": informed,
    "passive": _passive,
}
"""Attacks on confidentiality by name. `burn` and `replay`, on integrity, are in `work`."""
