"""Damage by deleting what was never there (the idea of Huang et al. 2025)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from exhume.attack.session import Attack
from exhume.errors import InputError, RefusedError, SingularStateError
from exhume.numerics import Matrix, Rows
from exhume.protocol.head import Head
from exhume.protocol.summary import Summary, Update

__all__ = ["TIMES", "burn", "largest_of_each"]

TIMES = (0.9, 0.5, 0.25, 0.1, 0.03, 0.01)
"""Sizes that an attacker tries from the largest down, where the server checks."""


def burn(
    attack: Attack,
    features: Matrix,
    labels: Rows,
    classes: int,
    *,
    times: float | Sequence[float] = 1.0,
    parts: int = 1,
) -> Head:
    """Ask for the deletion of rows that were never there and return the damaged head.

    A server without ownership checks subtracts them all the same.

    Parameters
    ----------
    attack
        The malicious client.
    features, labels, classes
        The rows.
    times
        How many copies to delete in one message; the server's own check that a head still exists bounds it. Of several
        numbers, the first that the server takes.
    parts
        Into how many messages to cut the rows: one row that does not fit shall not spoil them all.

    Raises
    ------
    RefusedError, SingularStateError
        If the server took nothing; its last answer.
    """
    tried = (times,) if isinstance(times, (int, float)) else tuple(times)
    if not tried or not all(number > 0 for number in tried):
        raise InputError("times", "above 0", times)
    refusals: list[Exception] = []
    heads: list[Head] = []

    def ask(rows: Rows, number: float) -> bool:
        one = Summary.of(features[rows], labels[rows], classes)
        try:
            heads.append(attack.submit(Update.deleting(Summary(one.gram * number, one.moment * number))))
        except (RefusedError, SingularStateError) as error:
            refusals.append(error)
            return False
        return True

    if not largest_of_each(ask, np.arange(len(features)), times=tried, parts=parts):
        raise refusals[-1]
    return heads[-1]


def largest_of_each(
    ask: Callable[[Rows, float], bool], rows: Rows, *, times: Sequence[float] = TIMES, parts: int = 8
) -> int:
    """Ask for parts of the rows, each at the first size that is taken; returns how many parts were.

    Parameters
    ----------
    ask
        Asks the server for the deletion of some rows at a size; says whether it took it.
    rows, times, parts
        As in `burn`.
    """
    if not 1 <= parts <= len(rows):
        raise InputError("parts", f"from 1 to the number of rows, {len(rows)}", parts)
    return sum(any(ask(part, number) for number in times) for part in np.array_split(rows, parts))
