"""Client splits of a data set, and the full-rank gate that selects the attacker among the clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, svdvals

from exhume.errors import DataError, InputError
from exhume.numerics import RANK_TOLERANCE, Rows

__all__ = ["dirichlet", "iid", "is_full_rank", "select_attacker", "usable_clients"]

Features = NDArray[np.floating]


def dirichlet(
    labels: NDArray[np.integer],
    clients: int,
    alpha: float,
    seed: int,
    minimum: int = 10,
    attempts: int = 1000,
) -> tuple[Rows, ...]:
    """Label-skewed split: each class is dealt out in proportions drawn from a Dirichlet distribution.

    The order of draws is fixed (per attempt and for each class in order: permutation, then
    proportions), so that a seed names the same split on every machine. It is the paper's procedure.

    Parameters
    ----------
    labels : array of shape (n,)
        Class of each row.
    clients : int
        Number of clients.
    alpha : float
        Concentration; the smaller, the more skewed.
    seed : int
        Seed of `numpy.random.default_rng`.
    minimum : int
        Rows that every client must get; an attempt that falls short is drawn again.
    attempts : int
        Attempts before giving up.

    Returns
    -------
    tuple of arrays
        Row indices of each client; together they hold every row once.

    Raises
    ------
    DataError
        If no attempt gives every client `minimum` rows.
    """
    labels = _check(labels, clients, minimum)
    if not alpha > 0 or not np.isfinite(alpha):
        raise InputError("alpha", "a positive finite number", alpha)
    if attempts < 1:
        raise InputError("attempts", "at least 1", attempts)
    rng = np.random.default_rng(seed)
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    best = 0
    for _ in range(attempts):
        parts = _deal(classes, clients, alpha, rng)
        smallest = min(len(part) for part in parts)
        if smallest >= minimum:
            return parts
        best = max(best, smallest)
    raise DataError(
        f"no Dirichlet split of {len(labels)} rows among {clients} clients at alpha {alpha:g}, seed {seed} gave "
        f"every client at least {minimum} rows in {attempts} attempts; the best left a client with {best}"
    )


def _deal(classes: Sequence[Rows], clients: int, alpha: float, rng: np.random.Generator) -> tuple[Rows, ...]:
    hands: list[list[Rows]] = [[] for _ in range(clients)]
    for rows in classes:
        shuffled = rng.permutation(rows)
        share = rng.dirichlet([alpha] * clients)
        cuts = (np.cumsum(share) * len(rows)).astype(int)[:-1]
        for hand, piece in zip(hands, np.split(shuffled, cuts), strict=True):
            hand.append(piece)
    return tuple(np.concatenate(hand) for hand in hands)


def iid(labels: NDArray[np.integer], clients: int, seed: int, minimum: int = 10) -> tuple[Rows, ...]:
    """Even split: one permutation of all rows, cut into parts whose sizes differ by at most one."""
    labels = _check(labels, clients, minimum)
    return tuple(np.array_split(np.random.default_rng(seed).permutation(len(labels)), clients))


def _check(labels: NDArray[np.integer], clients: int, minimum: int) -> NDArray[np.integer]:
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError("labels", "a one-dimensional integer array", f"shape {labels.shape}, {labels.dtype}")
    if clients < 1:
        raise InputError("clients", "at least 1", clients)
    if minimum < 0:
        raise InputError("minimum", "at least 0", minimum)
    if clients * minimum > len(labels):
        if len(labels) < 2 * minimum:
            raise InputError("rows", f"at least {minimum} for each of {clients} clients", len(labels))
        raise InputError(
            "clients",
            f"at most {len(labels) // minimum} for {len(labels)} rows and at least {minimum} rows each",
            clients,
        )
    return labels


def is_full_rank(features: Features, tolerance: float = RANK_TOLERANCE) -> bool:
    """Whether the rows span all d directions: smallest singular value above `tolerance` times the largest."""
    rows, d = features.shape
    if rows < d:
        return False
    triangle = qr(np.asarray(features, dtype=np.float64), mode="r", check_finite=False)[0][:d]
    values = svdvals(triangle, check_finite=False)
    return bool(values[-1] > tolerance * values[0])


def usable_clients(features: Features, parts: Sequence[Rows], tolerance: float = RANK_TOLERANCE) -> tuple[int, ...]:
    """Every client whose own rows have full feature rank, in order of index."""
    return tuple(_full_rank(features, parts, tolerance))


def select_attacker(features: Features, parts: Sequence[Rows], tolerance: float = RANK_TOLERANCE) -> int:
    """Client 0 if its features have full rank, else the full-rank client of lowest index.

    Raises
    ------
    DataError
        If no client has full feature rank.
    """
    for index in _full_rank(features, parts, tolerance):
        return index
    largest = max((len(part) for part in parts), default=0)
    raise DataError(
        f"none of the {len(parts)} clients has feature rank {features.shape[1]}; the largest holds {largest} rows"
    )


def _full_rank(features: Features, parts: Sequence[Rows], tolerance: float) -> Iterator[int]:
    return (index for index, part in enumerate(parts) if is_full_rank(features[part], tolerance))
