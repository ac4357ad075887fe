"""The default defences of a new server."""

from __future__ import annotations

import math

from exhume.defence.config import Config, Entry, build
from exhume.errors import InputError
from exhume.protocol.ledger import Ledger
from exhume.protocol.server import Server

__all__ = ["BUDGET", "SIGMA", "hardened", "hardened_config", "sigma_for"]

SIGMA = 0.2
"""Default noise: the largest on the measured frontier that costs at most 0.2 points on MNIST and CIFAR-10."""

BUDGET = 2.0
"""Default mu of a deletion's quiet run: up to here no reader on the frontier exceeds chance by five points."""

SCORE_NOISE = 0.04
"""Standard deviation of the noise on a score that digits bear at no measurable cost (`benchmarks/noise_frontier.py`).

What a data set bears depends on its margins: on CIFAR-10 features 0.03 costs 0.3 points. A small ledger of hard data
should be measured.
"""


def sigma_for(rows: int, d: int) -> float:
    """Return the noise for a ledger of so many rows: as much as the accuracy bears, never more than `SIGMA`.

    The noise on the score of a test row has variance ``sigma^2 f' A^-1 f``, on average ``sigma^2 d / rows``.
    """
    if rows < 1:
        raise InputError("rows", "at least 1", rows)
    return min(SIGMA, SCORE_NOISE * math.sqrt(rows / d))


def hardened_config(
    d: int,
    *,
    rows: int | None = None,
    sigma: float | None = None,
    budget: float = BUDGET,
    margin: int | None = None,
    collusion: int = 1,
    least_norm: float = 1e-3,
    precision: str = "float32",
    key: str | None = None,
) -> Config:
    """Return the default configuration for d features, to be written to a file or built.

    Parameters
    ----------
    d
        Number of feature dimensions.
    rows
        About how many rows the ledger holds; a small one bears less noise (`sigma_for`).
    sigma
        Scale of the posterior noise, in place of the one for so many rows.
    budget
        The mu that the releases of a quiet run may tell of a deletion.
    margin
        How many dimensions must stay unknown to every coalition; a quarter of d by default.
    collusion
        How many clients may work together. Above 1, the head after a client's change can wait for the change of another
        one, because the two might be a coalition that has seen too much.
    least_norm
        Lower bound on the length of an honest feature vector; the closer, the less a fabricated probe can move.
    precision
        Number format of the heads.
    key
        The secret of the noise (hexadecimal); made when the server is built if not given.
    """
    if sigma is None:
        sigma = SIGMA if rows is None else sigma_for(rows, d)
    noise = Entry.of("posterior_noise", sigma=sigma, **({} if key is None else {"key": key}))
    return Config(
        admission=(
            Entry.of("positive"),
            Entry.of("duplicates"),
            Entry.of("replay"),
            Entry.of("slack", least_norm=least_norm),
        ),
        release=(
            noise,
            Entry.of("privacy_budget", sigma=sigma, mu=budget, collusion=collusion),
            Entry.of("heads", precision=precision),
        ),
        accountant=Entry.of("identification", margin=max(1, d // 4) if margin is None else margin, coalition=collusion),
    )


def hardened(
    ledger: Ledger,
    *,
    rows: int | None = None,
    sigma: float | None = None,
    budget: float = BUDGET,
    margin: int | None = None,
    collusion: int = 1,
    least_norm: float = 1e-3,
    precision: str = "float32",
    key: str | None = None,
    admission: bool = True,
) -> Server:
    """Return a server with the default defences; the options are those of `hardened_config`.

    ``admission=False`` leaves the admission rules out, for a server that checks messages elsewhere.
    """
    config = hardened_config(
        ledger.d,
        rows=rows,
        sigma=sigma,
        budget=budget,
        margin=margin,
        collusion=collusion,
        least_norm=least_norm,
        precision=precision,
        key=key,
    )
    made = build(config if admission else config.model_copy(update={"admission": ()}), ledger)
    return made.server(ledger)
