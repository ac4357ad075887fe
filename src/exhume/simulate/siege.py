"""An adaptive attacker against a federation, one deletion after another, scored; and what rules cost without attack."""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from exhume.attack.block import Block
from exhume.errors import ExhumeError
from exhume.numerics import Rows, relative
from exhume.protocol.message import Batch
from exhume.protocol.summary import Summary, Update
from exhume.simulate.attackers import Attacker, Follow, Guess
from exhume.simulate.federation import Federation
from exhume.simulate.prober import Draft, Prober

__all__ = ["BUSY", "HonestCost", "SiegeScore", "besiege", "honest_cost"]

BUSY = 0.2
"""Probability that an honest message comes before each of the attacker's, where the server is not quiet."""

HONEST_AFTER = 8
"""Deletions, with as many additions, that honest clients ask for after an attack on the service."""

REPLAYED = 0.1
"""A replay succeeds if the block that came back is within this relative distance of the deleted one."""


@dataclass
class SiegeScore:
    """What an attacker got out of a server."""

    trials: int = 0
    deleted: int = 0
    """Deletions that the server served (an attack on one that was refused counts as failed)."""
    guessed: int = 0
    """Trials in which the attacker said something."""
    labels: int = 0
    replays: int = 0
    feature_errors: list[float] = field(default_factory=list)
    damage: list[float] = field(default_factory=list)
    """Test accuracy that the attack took from the public head, in points: right after it or after what honest clients
    then sent, whichever is worse."""
    honest_refused: int = 0
    """Honest messages that were refused after the attack, beyond those that are refused without it."""
    messages: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """The attacker's refused messages, by rule."""
    failures: Counter[str] = field(default_factory=Counter)
    """Why attacks failed, with how often."""


@dataclass(frozen=True)
class HonestCost:
    """What rules cost without any attack."""

    accuracy: float
    """Of the exact head on all retained rows."""
    accuracy_lost: float
    """In points, of the public head against it."""
    staleness: float
    """Mean number of accepted changes that the public head does not show."""
    head_error: float
    """Mean relative distance of released heads from the exact ones; exactness is kept where it is zero."""
    sent: int
    refused: int
    deletions_asked: int
    deletions_served: int


def honest_cost(federation: Federation, records: Rows, seed: int = 0) -> HonestCost:
    """Run honest traffic alone on a copy: additions and the deletion of every record, one after another."""
    fed = federation.fork()
    rng = np.random.default_rng([seed, 5])
    lost, accuracies = [], []
    steps: list[Callable[[int], object]] = [lambda _: fed.background(rng), fed.delete_somehow]
    for record, step in itertools.product(records, steps):
        step(int(record))
        head = fed.head()
        exact = fed.scenario.accuracy(fed.server.ledger.head()) or 0.0
        accuracies.append(exact)
        lost.append(100 * (exact - ((fed.scenario.accuracy(head.weights) or 0.0) if head is not None else 0.0)))
    got = fed.service
    return HonestCost(
        float(np.mean(accuracies)),
        float(np.mean(lost)),
        got.behind / max(got.sent, 1),
        got.error / max(got.released, 1),
        got.sent,
        got.refused.total(),
        got.deletions_asked,
        got.deletions_served,
    )


def besiege(
    federation: Federation,
    attacker: Attacker,
    records: Rows,
    *,
    busy: bool = False,
    averaged: int = 100,
    seed: int = 0,
) -> SiegeScore:
    """Attack the deletion of every record; the attacker learns once, then each deletion is a copy of its own.

    Parameters
    ----------
    federation
        The server with its clients; it is left as it was.
    attacker
        Who attacks.
    records
        The honest records whose deletion is attacked.
    busy
        Whether honest clients send updates in between.
    averaged
        Heads that an averaging attacker collects on each side.
    """
    fed = federation.fork()
    dice = f"{attacker.name} {busy} {len(fed.attackers)} {averaged}"
    prober = Prober(fed, np.random.default_rng([seed, zlib.crc32(dice.encode())]), BUSY if busy else 0.0, averaged)
    score = SiegeScore()
    follow: Follow | None = None
    try:
        follow = attacker.learn(prober)
    except (ExhumeError, np.linalg.LinAlgError) as error:
        _fail(score, error)
    if attacker.aim == "burn":
        _burn(federation, prober, follow, records[:HONEST_AFTER], seed, score)
        return score
    _spend(score, prober)
    for record in records:
        _trial(fed, prober, attacker, follow, int(record), score)
    return score


def _burn(
    federation: Federation, prober: Prober, follow: Follow | None, records: Rows, seed: int, score: SiegeScore
) -> None:
    """Score an attack on the head or the service, against the same federation without it."""
    fed, plain = prober.federation, prober.facing(federation.fork())
    anyway = _refused_after(plain, None, records, np.random.default_rng([seed, 6]))
    heads = [federation.head(), fed.head()]
    refused = _refused_after(prober, follow, records, np.random.default_rng([seed, 6]))
    heads.append(fed.head())
    start, *ends = (0.0 if head is None else fed.scenario.accuracy(head.weights) or 0.0 for head in heads)
    score.trials, score.honest_refused = 1, max(refused - anyway, 0)
    score.damage.append(100 * (start - min(ends)))
    _spend(score, prober)


def _refused_after(prober: Prober, follow: Follow | None, records: Rows, rng: np.random.Generator) -> int:
    """Return how many messages of honest clients are refused: additions, and the deletion of some records.

    The attacker sees each of them coming, and may act before it.
    """
    fed = prober.federation
    before = fed.service.refused.total()
    for record in records:
        if follow is not None:
            prober.upcoming = fed.fork().background(deepcopy(rng))
            follow(prober)
        fed.background(rng)
        if follow is not None:
            prober.upcoming = np.array([record])
            follow(prober)
        fed.delete_somehow(int(record))
    return fed.service.refused.total() - before


def _trial(
    fed: Federation, prober: Prober, attacker: Attacker, follow: Follow | None, record: int, score: SiegeScore
) -> None:
    score.trials += 1
    twin = fed.fork()
    gone = twin.delete_somehow(record)
    if gone is None:
        return
    score.deleted += 1
    if follow is None:
        return
    later = prober.facing(twin)
    later.target, later.happens = record, partial(twin.add_back, record)
    if attacker.aim in ("replay", "label"):
        deleted = fed.scenario.summary(gone if attacker.aim == "replay" else np.array([record]))
        later.told = Block(deleted.gram, deleted.moment)
    try:
        guess = follow(later)
        if guess is not None:
            score.guessed += 1
            if attacker.aim == "label" or attacker.event == "addition":
                score.labels += int(guess.label == fed.scenario.labels[record])
            else:
                _judge(fed, later, guess, record, gone, score)
    except (ExhumeError, np.linalg.LinAlgError) as error:
        _fail(score, error)
    _spend(score, later)


def _judge(fed: Federation, later: Prober, guess: Guess, record: int, gone: Rows, score: SiegeScore) -> None:
    s, block, rows = fed.scenario, guess.block, None
    if guess.label is not None and guess.feature is not None:
        score.labels += int(guess.label == s.labels[record])
        score.feature_errors.append(relative(guess.feature - s.features[record], s.features[record]))
        if len(gone) == 1:  # the attacker knows the size of the deletion: a record's gram follows from its feature
            rows = Batch(guess.feature[None, :], np.array([guess.label]))
            block = Block.of_sample(guess.label, guess.feature, s.classes)
    elif later.told is not None:
        rows = fed.batch(gone)
    score.replays += _put_back(later, rows, block, s.summary(gone))


def _put_back(prober: Prober, rows: Batch | None, block: Block, deleted: Summary) -> bool:
    """Add the block back: as it is, projected, mixed with a row of one's own; as rows where the server sees rows."""
    gaps = (relative(block.gram - deleted.gram, deleted.gram), relative(block.moment - deleted.moment, deleted.moment))
    if not max(gaps) < REPLAYED:
        return False
    s = prober.federation.scenario
    own = prober.adding(s.held_out[:1])
    if rows is not None:
        alone = Draft(rows)
        if any(prober.send(draft).accepted for draft in (alone, Draft.joined([alone, own]))):
            return True
    projected = block.projected().summary
    mixed = projected + s.summary(s.held_out[:1])
    return any(prober.send_update(Update.adding(part)).accepted for part in (block.summary, projected, mixed))


def _spend(score: SiegeScore, prober: Prober) -> None:
    score.messages += prober.spent.messages
    score.refused += prober.spent.refused


def _fail(score: SiegeScore, error: Exception) -> None:
    score.failures[str(error)[:120]] += 1
