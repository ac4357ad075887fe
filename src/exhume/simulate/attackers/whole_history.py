"""Attackers that watch ordinary traffic around one event, told all that happened but what the event was.

Where heads follow from noisy totals (`ContinualNoise`), they are told every total and take the best combination of all
since the event, which nobody who sees heads can beat. Elsewhere they average what public heads are off by.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from exhume.attack import recover
from exhume.attack.recover.informed import Candidates, read_white
from exhume.attack.state import State
from exhume.defence.release import ContinualNoise, Told, mask_of, noise_of_history
from exhume.errors import AttackError
from exhume.numerics import Matrix
from exhume.protocol.head import Head
from exhume.protocol.summary import Update
from exhume.simulate.attackers._base import Attacker, Follow, Guess, Learn, label_of_known, named
from exhume.simulate.prober import Prober

__all__ = ["ATTACKERS"]


def _told(prober: Prober) -> Told | None:
    mask = mask_of(prober.federation.server.release)
    return mask.told() if isinstance(mask, ContinualNoise) else None


def _misses(prober: Prober) -> Matrix:
    """Return by how much public heads miss the exact ones, on average over some traffic: their noise, averaged."""
    fed, found = prober.federation, []
    for _ in range(prober.averaged):
        fed.background(prober.rng)
        found.append(prober.head().weights - fed.server.ledger.head())
    return np.asarray(np.mean(found, axis=0))


@dataclass(frozen=True, eq=False)
class _Before:
    """What the attacker has when the event happens: totals where there are noisy ones, else what heads are off by."""

    told: Told | None
    misses: Matrix | None

    @classmethod
    def of(cls, prober: Prober) -> _Before:
        told = _told(prober)
        return cls(told, None if told is not None else _misses(prober))


def _from_totals(before: Told, later: Prober, *, feature: bool) -> Guess:
    fed, s, history = later.federation, later.federation.scenario, [before]
    mask = mask_of(fed.server.release)
    history += [told] if (told := _told(later)) is not None else []
    for _ in range(later.averaged):
        fed.background(later.rng)
        if (told := _told(later)) is not None and told.draws.events != history[-1].draws.events:
            history.append(told)
    noise = noise_of_history(history)
    event = mask.shown(s.summary(np.array([later.target]))) if isinstance(mask, ContinualNoise) else None
    if noise is None or event is None or event.rows is None:
        raise AttackError("no total after the event")
    gram, moment, size = noise
    w, head = event.rows[:, 0], before.measure.head
    X, Y = event.share * np.outer(w, w) + gram, event.share * event.moment + moment
    if feature:
        return named(later, label_of_known(Y, w, head, later.feature()))
    factor = np.tril(before.measure.factor)
    own = Candidates(factor @ factor.T, head, s.features[s.known], s.labels[s.known], s.classes)
    return Guess.of(read_white(own, Y, size * before.s, X, size * before.tau))


def _from_heads(before: Matrix, later: Prober, *, added: bool, feature: bool) -> Guess:
    fed, s = later.federation, later.federation.scenario
    after, record = _misses(later), s.summary(np.array([later.target]))
    # The attacker knows the ledger but for the record: what is left of the public heads is the record and the noise.
    other = fed.server.ledger.copy()
    other.apply(Update.deleting(record) if added else Update.adding(record))
    now, then = fed.server.ledger.head() + after, other.head() + before
    with_record, without = (now, then) if added else (then, now)
    A = fed.A if added else fed.A + record.gram
    if feature:
        factor, f = cholesky(A, lower=True), later.feature()
        white = solve_triangular(factor, f, lower=True)
        return named(later, label_of_known(factor.T @ (with_record - without), white, without, f))
    own = Candidates(A, with_record, s.features[s.known], s.labels[s.known], s.classes)
    return Guess.of(recover.informed(State.of(A, Head(with_record)), Head(without), own=own))


def _read(before: _Before, later: Prober, *, added: bool, feature: bool) -> Guess:
    if before.told is not None:
        return _from_totals(before.told, later, feature=feature)
    assert before.misses is not None
    return _from_heads(before.misses, later, added=added, feature=feature)


def _deletions(*, feature: bool) -> Learn:
    def learn(prober: Prober) -> Follow:
        before = _Before.of(prober)
        return lambda later: _read(before, later, added=False, feature=feature)

    return learn


def _additions(*, feature: bool) -> Learn:
    def follow(later: Prober) -> Guess:
        before = _Before.of(later)
        if not later.happens():
            raise AttackError("the record did not come in")
        return _read(before, later, added=True, feature=feature)

    return lambda prober: follow


ATTACKERS = (
    Attacker("history", "a whole history, all else known; knows the feature", _deletions(feature=True), aim="label"),
    Attacker("history-blind", "the same without the feature: Bayes' rule over its own rows", _deletions(feature=False)),
    Attacker(
        "additions",
        "the same for a record that comes in; knows the feature",
        _additions(feature=True),
        aim="label",
        event="addition",
    ),
    Attacker("additions-blind", "the same without the feature", _additions(feature=False), event="addition"),
)
