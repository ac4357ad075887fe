"""The default defences of a new server."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from exhume.defence.bounds import HOW_TO_MEASURE, Bounds
from exhume.defence.config import Config, Entry, build
from exhume.defence.release import Factorisation
from exhume.errors import InputError
from exhume.protocol.ledger import Ledger
from exhume.protocol.server import Server
from exhume.protocol.summary import Summary

__all__ = [
    "CAP",
    "HORIZON",
    "OUTLIER",
    "SIGMA",
    "SPREAD",
    "before_gram",
    "hardened",
    "hardened_config",
    "public_totals",
    "rows_in",
    "sigma_for",
    "spread_for",
]

SIGMA = 0.24
"""Default noise: the largest on the measured frontier that costs at most 0.2 points on MNIST and CIFAR-10."""

SPREAD = 0.7
"""Spread of the noise on the gram where rows are few, or their number is not known."""

LEAST_SPREAD = 0.5
"""Spread where rows are many: what the gram's noise leaves of the accuracy is better spent on the moment's."""

GRAM_MU = 2.5
"""The mu that the gram of an average record may have before its noise is worth more than `LEAST_SPREAD`."""

HORIZON = 1000
"""Default events of an epoch."""

SCORE_NOISE = 0.03
"""Standard deviation of the noise on a score that costs digits about 0.2 points (`benchmarks/posterior_frontier.py`).

What a data set bears depends on its margins. Where there are rows to measure on, use
`exhume.defence.calibration.sigma_within`.
"""

CAP = 32.0
"""Default cap on the mu of a single record's coming, and of its going: for outliers, far above an ordinary record's."""

OUTLIER = 4.0
"""Default limit on a record's mu in those of an average record, where that is less than `CAP`.

Of the records of MNIST and CIFAR-10 fewer than one in a thousand are beyond it (`benchmarks/outliers.py`).
"""


def sigma_for(rows: int, d: int) -> float:
    """Return the noise for a ledger of so many rows: as much as the accuracy bears, never more than `SIGMA`.

    The noise on the score of a test row has variance ``sigma^2 f' A^-1 f``, on average ``sigma^2 d / rows``.
    """
    if rows < 1:
        raise InputError("rows", "at least 1", rows)
    return min(SIGMA, SCORE_NOISE * math.sqrt(rows / d))


def spread_for(rows: int, d: int, horizon: int = HORIZON) -> float:
    """Return the spread of the gram's noise for so many rows: enough for `GRAM_MU`, within `LEAST_SPREAD` and `SPREAD`.

    An average record has leverage ``d / rows`` in the measure, so its gram is ``d / rows`` large and
    ``k g sqrt(2 d) d / (rows spread)`` apart from nothing, k and g being the norms of the factorisation.
    """
    if rows < 1:
        raise InputError("rows", "at least 1", rows)
    f = Factorisation.of(horizon)
    wanted = f.sensitivity * f.largest * math.sqrt(2.0 * d) * d / (rows * GRAM_MU)
    return min(max(wanted, LEAST_SPREAD), SPREAD)


def rows_in(ledger: Ledger) -> int:
    """Return how many rows a ledger surely holds: ``1' G' A^-1 G 1``.

    Labels are one-hot, so ``G 1`` is the sum of all features, and this is the squared length of the constant vector's
    projection onto the features: at most the number of rows, and equal to it where a constant is a sum of features.
    """
    total = ledger.summary.moment.sum(axis=1)
    return math.floor(float(total @ ledger.solve(total[:, None])[:, 0]))


def before_gram(sigma: float, spread: float = SPREAD) -> float:
    """Return the noise that costs what ``sigma`` does once it has passed through the noisy gram's inverse.

    With the gram's spectrum a semicircle of radius r around 1, that makes its variance
    ``2 (1 / sqrt(1 - r^2) - 1) / r^2`` times as large.
    """
    growth = 2.0 * (1.0 / math.sqrt(1.0 - spread**2) - 1.0) / spread**2
    return sigma / math.sqrt(growth)


def hardened_config(
    d: int,
    *,
    bounds: Bounds | None = None,
    rows: int | None = None,
    sigma: float | None = None,
    show_rows: bool = True,
    keep_totals: bool = False,
    least_norm: float = 1e-3,
    horizon: int = HORIZON,
    cap: float | None = CAP,
    outlier: float | None = OUTLIER,
    founding: int = 0,
    grows: bool | None = None,
    public: Summary | None = None,
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
        About how many rows the ledger holds; a small one bears less noise (`sigma_for`), and needs more of it on the
        gram (`spread_for`).
    sigma
        Scale of the noise at the end of an epoch, in place of the one for so many rows: it costs what `PosteriorNoise`
        at this sigma does.
    show_rows
        Whether clients show the rows behind their sums: deletions must then be rows that the client has shown, of each
        of which the server keeps 32 bytes. Without, they are messages that it sent, bit for bit (`WholeMessages`).
    keep_totals
        Without shown rows, whether to keep every client's totals instead, a d x d matrix each, so that it can delete
        any part of what it has (`AlgebraicOwnership`).
    least_norm
        With kept totals, a lower bound on the length of an honest feature vector.
    horizon, cap, outlier, founding, grows, public
        Those of `exhume.defence.release.ContinualNoise`. The measure grows unless founders or public rows stand for
        what is to come. Public totals cannot be written to a file.
    precision
        Number format of the heads.
    key
        The secret of the noise (hexadecimal); made when the server is built if not given.
    """
    if sigma is None:
        sigma = SIGMA if rows is None else sigma_for(rows, d)
    spread = SPREAD if rows is None else spread_for(rows, d, horizon)
    noise = {"sigma": before_gram(sigma, spread), "spread": spread}
    # Kept totals let a client take back any part: nobody could say which record's share goes.
    kept = None if keep_totals and not show_rows else cap
    options = {**noise, "horizon": horizon, "cap": kept, "by_rows": show_rows, "founding": founding}
    if kept is not None and outlier is not None:
        options["outlier"] = outlier
        if not show_rows and bounds is not None:
            options["longest"] = bounds.longest
    if grows is not None or founding or public is not None:  # else the rule asks which rows shape the noise
        options["grows"] = bool(grows)
    given = {name: value for name, value in {"public": public, "key": key}.items() if value is not None}
    release = (Entry.of("continual-noise", **options, **given), Entry.of("heads", precision=precision))
    return Config(admission=_admission(bounds, show_rows, keep_totals, least_norm), release=release)


def _admission(bounds: Bounds | None, show_rows: bool, keep_totals: bool, least_norm: float) -> tuple[Entry, ...]:
    counted = {} if show_rows else {"by_rows": False}
    bounded = Entry.of("bounded-influence", **({} if bounds is None else bounds.options()), **counted)
    if show_rows:
        return bounded, Entry.of("ownership", show_rows=True)
    positive = Entry.of("positive-semidefinite", **({} if bounds is None else {"most_rows": bounds.message_rows}))
    owned = Entry.of("algebraic-ownership", least_norm=least_norm) if keep_totals else Entry.of("whole-messages")
    return bounded, positive, owned


def public_totals(public: tuple[ArrayLike, ArrayLike], classes: int, rows: int | None) -> Summary:
    """Return the totals of public features and labels, as large as those of a ledger of so many rows.

    The gram is shrunk towards a multiple of the identity as Ledoit and Wolf (2004) do: of a sample the smallest
    eigenvalues come out too small, so that the records of others would lie far outside of it.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage  # takes a while to come

    sample, features = Summary.of(*public, classes), np.asarray(public[0], dtype=float)
    n, d = features.shape
    if n < d:
        raise InputError("public", f"as many rows as features at least ({d})", n)
    share = ledoit_wolf_shrinkage(features, assume_centered=True)
    gram = (1.0 - share) * sample.gram + share * float(np.trace(sample.gram)) / d * np.eye(d)
    times = 1.0 if rows is None else rows / n
    return Summary(times * gram, times * sample.moment)


def hardened(
    ledger: Ledger,
    *,
    bounds: Bounds | None = None,
    rows: int | None = None,
    admission: bool = True,
    public: tuple[ArrayLike, ArrayLike] | None = None,
    **options: Any,
) -> Server:
    """Return a server with the default defences; the other options are those of `hardened_config`.

    Parameters
    ----------
    ledger
        The retained totals. Where it holds rows and none are ``public``, it is the noise's first measure.
    bounds
        What one client can move at most. Without, the server does not start.
    rows
        About how many rows the ledger will hold; where this is not given, `rows_in` counts what it holds already.
    admission
        False leaves the admission rules out, for a server that checks messages elsewhere.
    public
        Features and labels of rows that need no protection (the operator's own, say): the noise's first measure. An
        empty ledger needs them, or ``founding`` messages from clients that are trusted.
    """
    if admission and bounds is None:
        raise InputError("bounds", HOW_TO_MEASURE, "none")
    found = rows if rows is not None else rows_in(ledger)
    expected = found if rows is not None or found >= 1 else None
    if expected is not None and 2 * rows_in(ledger) >= expected:
        options.setdefault("grows", False)
    if public is not None:
        options["public"] = public_totals(public, ledger.c, expected)
    config = hardened_config(ledger.d, bounds=bounds, rows=expected, **options)
    made = build(config if admission else config.model_copy(update={"admission": ()}), ledger)
    return made.new_server(ledger)
