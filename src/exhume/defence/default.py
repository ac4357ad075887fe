"""The default defences of a new server."""

from __future__ import annotations

import math
from typing import Any

from exhume.defence.bounds import HOW_TO_MEASURE, Bounds
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
    bounds: Bounds | None = None,
    rows: int | None = None,
    sigma: float | None = None,
    show_rows: bool = True,
    keep_totals: bool = False,
    least_norm: float = 1e-3,
    colluders: int = 1,
    precision: str = "float32",
    key: str | None = None,
) -> Config:
    """Return the default configuration for d features, to be written to a file or built.

    Nothing that a client sees of its own messages (accepted or refused, the reason, a withheld head) depends on what
    others sent: see `exhume.defence.interference`.

    Parameters
    ----------
    d
        Number of feature dimensions.
    bounds
        What one client can move at most (`Bounds.measure`). A configuration without them can be read, not built.
    rows
        About how many rows the ledger holds; a small one bears less noise (`sigma_for`).
    sigma
        Scale of all noise together, in place of the one for so many rows; `split` divides it.
    show_rows
        Whether clients show the rows behind their sums: deletions must then be rows that the client has shown, of each
        of which the server keeps 32 bytes. Without, they are messages that it sent, bit for bit (`WholeMessages`).
    keep_totals
        Without shown rows, whether to keep every client's totals instead, a d x d matrix each, so that it can delete
        any part of what it has (`AlgebraicOwnership`).
    least_norm
        With kept totals, a lower bound on the length of an honest feature vector.
    colluders
        How many clients may work together.
    precision
        Number format of the heads.
    key
        The secret of the noise (hexadecimal); made when the server is built if not given.
    """
    if sigma is None:
        sigma = SIGMA if rows is None else sigma_for(rows, d)
    fresh, mask = split(sigma)
    secret = {} if key is None else {"key": key}
    release = (
        Entry.of("deletion-mask", sigma=mask, spread=SPREAD, colluders=colluders, **secret),
        Entry.of("posterior-noise", sigma=fresh, **secret),
        Entry.of("heads", precision=precision),
    )
    return Config(admission=_admission(bounds, show_rows, keep_totals, least_norm), release=release)


def _admission(bounds: Bounds | None, show_rows: bool, keep_totals: bool, least_norm: float) -> tuple[Entry, ...]:
    bounded = Entry.of("bounded-influence", **({} if bounds is None else bounds.options()))
    if show_rows:
        return bounded, Entry.of("ownership", rows=True)
    positive = Entry.of("positive-semidefinite", **({} if bounds is None else {"most_rows": bounds.message_rows}))
    owned = Entry.of("algebraic-ownership", least_norm=least_norm) if keep_totals else Entry.of("whole-messages")
    return bounded, positive, owned


def hardened(
    ledger: Ledger, *, bounds: Bounds | None = None, rows: int | None = None, admission: bool = True, **options: Any
) -> Server:
    """Return a server with the default defences; the options are those of `hardened_config`.

    It does not start without bounds. Where ``rows`` is not given and the ledger has data, `rows_in` counts them.
    ``admission=False`` leaves the admission rules out, for a server that checks messages elsewhere.
    """
    if admission and bounds is None:
        raise InputError("bounds", HOW_TO_MEASURE, "none")
    found = rows if rows is not None else rows_in(ledger)
    config = hardened_config(ledger.d, bounds=bounds, rows=found if rows is not None or found >= 1 else None, **options)
    made = build(config if admission else config.model_copy(update={"admission": ()}), ledger)
    return made.server(ledger)
