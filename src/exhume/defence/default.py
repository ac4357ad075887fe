"""The default defences of a new server."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from exhume.defence.config import Config, Entry, build
from exhume.errors import InputError
from exhume.protocol.ledger import Ledger
from exhume.protocol.server import Server

__all__ = ["SIGMA", "SPREAD", "hardened", "hardened_config", "rows_in", "sigma_for", "split"]

SIGMA = 0.2
"""Default noise: the largest on the measured frontier that costs at most 0.2 points on MNIST and CIFAR-10."""

SPREAD = 0.7
"""Default spread of the mask on the gram."""

SCORE_NOISE = 0.03
"""Standard deviation of the noise on a score that costs digits about 0.2 points (`benchmarks/noise_frontier.py`).

What a data set bears depends on its margins. Where there are rows to measure on, use
`exhume.defence.calibration.sigma_within`.
"""

FRESH = 0.4
"""Share of sigma that is drawn for every state; the rest is the mask, drawn for every deletion."""


def sigma_for(rows: int, d: int) -> float:
    """Return the noise for a ledger of so many rows: as much as the accuracy bears, never more than `SIGMA`.

    The noise on the score of a test row has variance ``sigma^2 f' A^-1 f``, on average ``sigma^2 d / rows``.
    """
    if rows < 1:
        raise InputError("rows", "at least 1", rows)
    return min(SIGMA, SCORE_NOISE * math.sqrt(rows / d))


def rows_in(ledger: Ledger) -> int:
    """Return how many rows a ledger surely holds: ``1' G' A^-1 G 1``.

    Labels are one-hot, so ``G 1`` is the sum of all features, and this is the squared length of the constant vector's
    projection onto the features: at most the number of rows, and equal to it where a constant is a sum of features.
    """
    total = ledger.summary.moment.sum(axis=1)
    return math.floor(float(total @ ledger.solve(total[:, None])[:, 0]))


def split(sigma: float, spread: float = SPREAD) -> tuple[float, float]:
    """Return the sigmas of fresh noise and of the mask that together cost what ``sigma`` does.

    The mask's noise passes through the masked gram's inverse. With its spectrum a semicircle of radius r around 1 that
    makes its variance ``2 (1 / sqrt(1 - r^2) - 1) / r^2`` times as large.
    """
    growth = 2.0 * (1.0 / math.sqrt(1.0 - spread**2) - 1.0) / spread**2
    return FRESH * sigma, sigma * math.sqrt((1.0 - FRESH**2) / growth)


def hardened_config(
    d: int,
    *,
    rows: int | None = None,
    sigma: float | None = None,
    budget: float | None = None,
    thresholds: Mapping[str, float] | None = None,
    show_rows: bool = False,
    margin: int | None = None,
    colluders: int = 1,
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
        Scale of all noise together, in place of the one for so many rows; `split` divides it.
    budget
        The mu that the fresh noise of a quiet run may tell of a deletion, on top of the mask: heads beyond it wait.
    thresholds
        Those of `exhume.defence.admission.NormLimit`, calibrated on honest messages; no norm rule without.
    show_rows
        Whether clients show the rows behind their sums: deletions must then be rows that the client has shown, and no
        row near somebody else's deleted one is added again, however it is mixed.
    margin
        How many dimensions must stay unknown to all colluders together; a quarter of d by default.
    colluders
        How many clients may work together. Above 1, the head after a client's change can wait for the change of another
        one, because the two together might have seen too much.
    least_norm
        Lower bound on the length of an honest feature vector; the closer, the less a fabricated probe can move.
    precision
        Number format of the heads.
    key
        The secret of the noise (hexadecimal); made when the server is built if not given.
    """
    if sigma is None:
        sigma = SIGMA if rows is None else sigma_for(rows, d)
    fresh, mask = split(sigma)
    secret = {} if key is None else {"key": key}
    release = [
        Entry.of("deletion-mask", sigma=mask, spread=SPREAD, colluders=colluders, **secret),
        Entry.of("posterior-noise", sigma=fresh, **secret),
    ]
    if budget is not None:
        release.append(Entry.of("privacy-budget", sigma=fresh, mu=budget, colluders=colluders))
    norm = () if thresholds is None else (Entry.of("norm-limit", thresholds=dict(thresholds)),)
    return Config(
        admission=(
            Entry.of("positive-semidefinite"),
            *norm,
            Entry.of("duplicates"),
            Entry.of("replay"),
            *((Entry.of("ownership", show_rows=True),) if show_rows else ()),
            Entry.of("algebraic-ownership", least_norm=least_norm),
        ),
        release=(*release, Entry.of("heads", precision=precision)),
        accountant=Entry.of("identification", margin=max(1, d // 4) if margin is None else margin, colluders=colluders),
    )


def hardened(ledger: Ledger, *, rows: int | None = None, admission: bool = True, **options: Any) -> Server:
    """Return a server with the default defences; the options are those of `hardened_config`.

    Where ``rows`` is not given and the ledger has data, `rows_in` counts them. ``admission=False`` leaves the admission
    rules out, for a server that checks messages elsewhere.
    """
    found = rows if rows is not None else rows_in(ledger)
    config = hardened_config(ledger.d, rows=found if rows is not None or found >= 1 else None, **options)
    made = build(config if admission else config.model_copy(update={"admission": ()}), ledger)
    return made.server(ledger)
