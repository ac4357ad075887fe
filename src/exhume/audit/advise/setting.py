"""The federation in which attacks meet defences: who holds which rows, and what is deleted."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from exhume.errors import DataError
from exhume.numerics import Matrix, Rows
from exhume.protocol.summary import Summary

__all__ = ["Setting", "make_setting"]

CLIENTS = 8
"""Honest clients."""

RESERVE = 0.15
"""Share of an honest client's rows that it adds later, one message at a time."""


@dataclass(frozen=True, eq=False)
class Setting:
    """Rows of every party, fixed for a whole run of the matrix."""

    features: Matrix
    labels: Rows
    test_features: Matrix
    test_labels: Rows
    classes: int
    honest: tuple[Rows, ...]
    """Rows that each honest client adds at the start."""
    reserve: tuple[Rows, ...]
    """Rows that each honest client adds later."""
    own: Rows
    """The attacker's rows in the ledger."""
    held_out: Rows
    """The attacker's rows that no ledger has seen."""
    calibration: Rows
    """Rows that the operator calibrates thresholds on; nobody else's."""
    targets: Rows
    """Rows whose deletion is attacked: as equal in number over the classes as their number allows."""
    gamma: float
    seed: int
    points: float = 0.2
    """Test accuracy that the operator can give up, which noise is calibrated to."""

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return int(self.features.shape[1])

    @property
    def nonnegative(self) -> bool:
        """Whether the encoder gives no negative feature, as far as the attacker can tell."""
        return bool(self.features[self.own].min() >= 0)

    def summary(self, rows: Rows) -> Summary:
        """Summarise some rows."""
        return Summary.of(self.features[rows], self.labels[rows], self.classes)

    def owner(self, row: int) -> int:
        """Return the honest client that has a row in the ledger."""
        return next(k for k, part in enumerate(self.honest) if row in part)


def make_setting(
    train: tuple[Matrix, Rows],
    test: tuple[Matrix, Rows],
    classes: int,
    *,
    trials: int,
    seed: int = 0,
    gamma: float = 1e-3,
    points: float = 0.2,
) -> Setting:
    """Deal the rows out: the attacker gets what full-rank probes of its own need, twice, the operator a sample.

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
    parts = np.array_split(rest, CLIENTS)
    cuts = [round(len(part) * (1 - RESERVE)) for part in parts]
    honest = tuple(part[:cut] for part, cut in zip(parts, cuts, strict=True))
    reserve = tuple(part[cut:] for part, cut in zip(parts, cuts, strict=True))
    pool = np.random.default_rng([seed, 2]).permutation(np.concatenate(honest))
    by_class = [pool[labels[pool] == k] for k in range(classes)]
    rounds = -(-trials // classes)
    spread = np.array([rows[i] for i in range(rounds) for rows in by_class if i < len(rows)], dtype=np.intp)
    return Setting(
        features,
        labels,
        test[0],
        test[1],
        classes,
        honest,
        reserve,
        own,
        held_out,
        calibration,
        spread[:trials],
        gamma,
        seed,
        points,
    )


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
