"""Who holds which rows: the clients of a federation, the malicious one among them, and what nobody has sent yet."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from exhume.errors import DataError, InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.head import Head
from exhume.protocol.summary import Summary

__all__ = ["Scenario", "deal", "spread_records"]

HONEST = 8
"""Honest clients that `deal` makes."""

BLOCK = 2000
"""Rows that are summed up together where there are many features."""

BLOCKWISE_FROM = 4096
"""From so many features on totals are summed up block by block."""

RESERVE = 0.15
"""Share of an honest client's rows that it adds later, one message at a time."""


def _nobody() -> Rows:
    return np.empty(0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Scenario:
    """Clients with their rows, one of them malicious."""

    features: Matrix
    labels: Rows
    classes: int
    parts: tuple[Rows, ...]
    """The rows that each client has in the ledger at the start."""
    attacker: int
    """Which client is malicious."""
    gamma: float = 1e-3
    held_out: Rows = field(default_factory=_nobody)
    """Rows of the attacker's that no ledger has seen."""
    reserve: tuple[Rows, ...] = ()
    """Rows that each honest client adds later."""
    calibration: Rows = field(default_factory=_nobody)
    """Rows that the operator calibrates thresholds on; nobody else's."""
    test_features: Matrix | None = None
    test_labels: Rows | None = None
    seed: int = 0
    shown: int | None = None
    """How many of the malicious client's rows are looked at (`own`); all of them if None."""

    def __post_init__(self) -> None:
        if not 0 <= self.attacker < len(self.parts):
            raise InputError("attacker", f"a client from 0 to {len(self.parts) - 1}", self.attacker)

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return int(self.features.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """What the clients are called."""
        return tuple(f"client {k}" for k in range(len(self.parts)))

    def identities(self, colluders: int) -> tuple[str, ...]:
        """Return the names of the malicious client: as many as the operator plans for, and one more."""
        first = self.names[self.attacker]
        return (first, *(f"{first} as {i + 2}" for i in range(colluders - 1)), f"{first} again")

    @property
    def honest(self) -> tuple[int, ...]:
        """The clients that are not malicious."""
        return tuple(k for k in range(len(self.parts)) if k != self.attacker)

    @cached_property
    def total(self) -> Summary:
        """Everybody's rows, summed: of many features block by block, so that no copy of all rows is made."""
        rows = np.concatenate(self.parts)
        if self.d < BLOCKWISE_FROM:
            return self.summary(rows)
        parts = (rows[at : at + BLOCK] for at in range(0, len(rows), BLOCK))
        return Summary.of_blocks(((self.features[part], self.labels[part]) for part in parts), self.classes)

    @property
    def own(self) -> tuple[Matrix, Rows]:
        """Features and labels that the malicious client has in the ledger, as far as they are looked at."""
        if self.shown is not None:
            return self._shown
        rows = self.parts[self.attacker]
        return self.features[rows], self.labels[rows]

    @cached_property
    def _shown(self) -> tuple[Matrix, Rows]:
        rows = self.parts[self.attacker][: self.shown]
        return self.features[rows], self.labels[rows]

    @cached_property
    def known(self) -> Rows:
        """All rows that the malicious client holds, in the ledger or not."""
        return np.concatenate([self.parts[self.attacker], self.held_out])

    @cached_property
    def others(self) -> Rows:
        """The rows in the ledger that the malicious client does not hold, in order."""
        held = np.zeros(len(self.features), dtype=bool)
        held[np.concatenate(self.parts)] = True
        held[self.parts[self.attacker]] = False
        return np.flatnonzero(held)

    @property
    def nonnegative(self) -> bool:
        """Whether the encoder gives no negative feature, as far as the attacker can tell from its own rows."""
        return bool(self.own[0].min() >= 0)

    def summary(self, rows: Rows) -> Summary:
        """Summarise some rows."""
        return Summary.of(self.features[rows], self.labels[rows], self.classes)

    def owner(self, row: int) -> int:
        """Return the client that has a row in the ledger at the start."""
        return next(k for k, part in enumerate(self.parts) if row in part)

    def accuracy(self, weights: Matrix) -> float | None:
        """Return the test accuracy of some weights; None where there are no test rows."""
        if self.test_features is None or self.test_labels is None or not len(self.test_labels):
            return None
        return Head(weights).accuracy(self.test_features, self.test_labels)

    def __repr__(self) -> str:
        rows = sum(map(len, self.parts))
        return f"Scenario(clients={len(self.parts)}, rows={rows}, d={self.d}, c={self.classes}, seed={self.seed})"


def deal(
    train: tuple[Matrix, Rows],
    test: tuple[Matrix, Rows],
    classes: int,
    *,
    seed: int = 0,
    gamma: float = 1e-3,
) -> Scenario:
    """Deal rows out: the attacker gets what full-rank probes of its own need, twice, the operator a sample.

    Raises
    ------
    DataError
        If there are too few rows: the attacker needs 2.4 d, calibration and honest clients as many again.
    """
    features, labels = train
    n, d = features.shape
    share = int(1.2 * d) + classes
    sample = min(max(n // 6, 64), 2000)
    if n < 2 * share + sample + 2 * d:
        raise DataError(
            f"{n} rows are too few for d = {d}: {2 * share + sample + 2 * d} are needed; choose fewer features"
        )
    order = np.random.default_rng([seed, 1]).permutation(n)
    own, held_out, calibration, rest = np.split(order, np.cumsum([share, share, sample]))
    for mine, pool in itertools.product((own, held_out), (rest, calibration)):
        _fill_rank(features, mine, pool)
    parts = np.array_split(rest, HONEST)
    cuts = [round(len(part) * (1 - RESERVE)) for part in parts]
    return Scenario(
        features,
        labels,
        classes,
        parts=(*(part[:cut] for part, cut in zip(parts, cuts, strict=True)), own),
        attacker=HONEST,
        gamma=gamma,
        held_out=held_out,
        reserve=(*(part[cut:] for part, cut in zip(parts, cuts, strict=True)), _nobody()),
        calibration=calibration,
        test_features=test[0],
        test_labels=test[1],
        seed=seed,
    )


def spread_records(scenario: Scenario, count: int) -> Rows:
    """Return honest records to delete, as equal in number over the classes as their number allows."""
    honest = np.concatenate([scenario.parts[k] for k in scenario.honest])
    pool = np.random.default_rng([scenario.seed, 2]).permutation(honest)
    by_class = [pool[scenario.labels[pool] == k] for k in range(scenario.classes)]
    rounds = max(map(len, by_class))
    spread = [rows[i] for i in range(rounds) for rows in by_class if i < len(rows)]
    return np.array(spread[:count], dtype=np.intp)


def _fill_rank(features: Matrix, mine: Rows, pool: Rows) -> None:
    """Swap rows of a pool in until ``mine`` has full feature rank, as the paper asks of an attacker."""
    d = features.shape[1]
    while (rank := int(np.linalg.matrix_rank(features[mine]))) < d:
        _, _, right = np.linalg.svd(features[mine])
        gain = np.abs(features[pool] @ right[-1])
        best = int(np.argmax(gain))
        # A row that brings nothing new to the others makes room: one that can be left out without losing rank.
        spare = next((i for i in range(len(mine)) if np.linalg.matrix_rank(features[np.delete(mine, i)]) == rank), None)
        if spare is None or gain[best] <= 1e-9 * np.linalg.norm(features[pool[best]]):
            return
        mine[spare], pool[best] = pool[best], mine[spare]
