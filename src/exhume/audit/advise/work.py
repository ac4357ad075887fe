"""One cell of the matrix: an attack against a defence, on one deletion after another, scored."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from exhume.attack._linalg import relative
from exhume.attack.block import Block
from exhume.audit.advise.attacks import ATTACKS, Follow, Guess
from exhume.audit.advise.defences import DEFENCES, defence
from exhume.audit.advise.federation import Federation
from exhume.audit.advise.prober import Plan, Prober
from exhume.audit.advise.setting import Setting
from exhume.defence.admission import Batch
from exhume.errors import ExhumeError, unknown_name
from exhume.numerics import Rows
from exhume.protocol import Summary, Update

__all__ = ["ALL_ATTACKS", "Cell", "Honest", "Score", "honest_cell", "run_cell"]

ALL_ATTACKS = (*ATTACKS, "burn", "replay")

BUSY = 0.2
"""Probability that an honest message comes before each of the attacker's, in the concurrent half of the matrix."""

REPLAYED = 0.1
"""A replay succeeds if the block that came back is within this relative distance of the deleted one."""


@dataclass(frozen=True)
class Cell:
    """Which attack against which defence, with or without honest updates in between, and as how many clients."""

    attack: str
    defence: str
    busy: bool = False
    colluders: int = 1
    averaged: int = 100


@dataclass
class Score:
    """What an attack got out of a defence."""

    trials: int = 0
    deleted: int = 0
    """Deletions that the server served (an attack on one that was refused counts as failed)."""
    labels: int = 0
    replays: int = 0
    feature_errors: list[float] = field(default_factory=list)
    damage: list[float] = field(default_factory=list)
    """Test accuracy that the attack took from the public head, in points."""
    messages: int = 0
    refused: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Honest:
    """What a defence costs without any attack."""

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


@lru_cache(maxsize=4)
def _federation(setting: Setting, name: str, colluders: int) -> Federation:
    return Federation(setting, defence(name), colluders)


def honest_cell(setting: Setting, name: str) -> Honest:
    """Run honest traffic alone: additions and the deletion of every target, one after another."""
    fed = _federation(setting, name, 1).fork()
    rng = np.random.default_rng([setting.seed, 5])
    lost, exact_accuracy = [], []
    steps: list[Callable[[int], object]] = [lambda _: fed.background(rng), fed.delete]
    for row, step in itertools.product(setting.targets, steps):
        step(int(row))
        head = fed.head()
        exact = fed.accuracy(fed.server.ledger.head())
        exact_accuracy.append(exact)
        lost.append(100 * (exact - (fed.accuracy(head.weights) if head is not None else 0.0)))
    got = fed.service
    return Honest(
        float(np.mean(exact_accuracy)),
        float(np.mean(lost)),
        got.behind / max(got.observed, 1),
        got.error / max(got.released, 1),
        got.sent,
        got.refused,
        got.deletions_asked,
        got.deletions_served,
    )


def run_cell(setting: Setting, cell: Cell) -> Score:
    """Attack every target; the attacker learns once, then each deletion is a copy of its own."""
    if cell.attack not in ALL_ATTACKS:
        raise unknown_name("attack", cell.attack, ALL_ATTACKS)
    if cell.defence not in DEFENCES:
        raise unknown_name("defence", cell.defence, DEFENCES)
    fed = _federation(setting, cell.defence, cell.colluders).fork()
    rng = np.random.default_rng([setting.seed, zlib.crc32(f"{cell}".encode())])
    prober = Prober(fed, rng, BUSY if cell.busy else 0.0, cell.averaged)
    score = Score()
    if cell.attack == "burn":
        return _burn(prober, score)
    follow: Follow | None = None
    if cell.attack != "replay":
        try:
            follow = ATTACKS[cell.attack](prober)
        except (ExhumeError, np.linalg.LinAlgError) as error:
            _fail(score, error)
    _spend(score, prober)
    for row in setting.targets:
        _trial(setting, fed, prober, follow, int(row), score, known=cell.attack == "replay")
    return score


def _trial(
    setting: Setting, fed: Federation, prober: Prober, follow: Follow | None, row: int, score: Score, *, known: bool
) -> None:
    score.trials += 1
    twin = fed.fork()
    gone = twin.delete(row)
    if gone is None:
        return
    score.deleted += 1
    later = prober.facing(twin)
    if known:
        score.replays += _replay(later, fed.batch(gone), _exact(setting, gone), setting.summary(gone))
        _spend(score, later)
        return
    if follow is None:
        return
    try:
        guess = follow(later)
        if guess is not None:
            _judge(setting, later, guess, row, gone, score)
    except (ExhumeError, np.linalg.LinAlgError) as error:
        _fail(score, error)
    _spend(score, later)


def _judge(setting: Setting, later: Prober, guess: Guess, row: int, gone: Rows, score: Score) -> None:
    feature = setting.features[row]
    score.labels += int(guess.label == setting.labels[row])
    score.feature_errors.append(relative(guess.feature - feature, feature))
    record, block = None, guess.block
    if len(gone) == 1:  # the attacker knows the size of the deletion: a record's gram follows from its feature
        record = Batch(guess.feature[None, :], np.array([guess.label]))
        block = Block.of_sample(guess.label, guess.feature, setting.classes)
    score.replays += _replay(later, record, block, setting.summary(gone))


def _exact(setting: Setting, rows: Rows) -> Block:
    block = setting.summary(rows)
    return Block(block.gram, block.moment)


def _replay(prober: Prober, guess: Batch | None, block: Block, deleted: Summary) -> int:
    """Add the block back: as it is, projected, mixed with a row of one's own; as rows where the server sees rows."""
    gaps = (relative(block.gram - deleted.gram, deleted.gram), relative(block.moment - deleted.moment, deleted.moment))
    if not max(gaps) < REPLAYED:
        return 0
    fed, own = prober.federation, prober.adding(prober.federation.setting.held_out[:1])
    if guess is not None:
        alone = Plan(guess, None)
        if any(prober.send(plan).accepted for plan in (alone, Plan.joined([alone, own]))):
            return 1
    projected = block.projected().summary
    mixed = projected + own.update(fed.setting).add
    return int(any(_sent(prober, Update.adding(part)) for part in (block.summary, projected, mixed)))


def _sent(prober: Prober, update: Update) -> bool:
    receipt = prober.federation.submit(update, prober.federation.attackers[0])
    prober.spent.note(receipt)
    return receipt.accepted


def _burn(prober: Prober, score: Score) -> Score:
    """Delete rows that were never there, as many and as large as the server takes; the damage is to the head."""
    fed, s = prober.federation, prober.federation.setting
    start = fed.head()
    before = 0.0 if start is None else fed.accuracy(start.weights)
    score.trials = 1
    for part in np.array_split(s.held_out, 8):  # in parts: one row that does not fit shall not spoil them all
        for times in (0.9, 0.5, 0.25, 0.1, 0.03, 0.01):
            rows = Batch(np.sqrt(times) * s.features[part], (s.labels[part] + 1) % s.classes)
            if prober.send(Plan(None, rows)).accepted:
                break
    head, _ = prober.provoke(None if start is None else start.serial)
    score.damage.append(100 * (before - fed.accuracy(head.weights)))
    _spend(score, prober)
    return score


def _spend(score: Score, prober: Prober) -> None:
    score.messages += prober.spent.messages
    score.refused += prober.spent.refused
    for rule, n in prober.spent.reasons.items():
        score.reasons[rule] = score.reasons.get(rule, 0) + n


def _fail(score: Score, error: Exception) -> None:
    reason = str(error)[:120]
    score.failures[reason] = score.failures.get(reason, 0) + 1
