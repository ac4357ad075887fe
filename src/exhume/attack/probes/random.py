"""The random probe: independent Gaussian moment increments."""

from __future__ import annotations

import math

import numpy as np

from exhume.attack.probes.base import MomentProbe, as_mode
from exhume.errors import InputError

__all__ = ["random"]


def random(
    d: int,
    c: int,
    *,
    rng: np.random.Generator,
    responses: int | None = None,
    scale: float = 1e4,
    mode: str = "cumulative",
) -> MomentProbe:
    """Return ``responses`` (default ceil(d/c)) Gaussian increments of the given scale.

    In cumulative mode they add up, so the totals are a random walk; in restored mode each is a total of its own.
    """
    if d < 1 or c < 1:
        raise InputError("d, c", "at least 1", (d, c))
    if not (math.isfinite(scale) and scale > 0):
        raise InputError("scale", "a finite number above 0", scale)
    m = math.ceil(d / c) if responses is None else responses
    if m < 1:
        raise InputError("responses", "at least 1", m)
    increments = scale * rng.standard_normal((m, d, c))
    totals = increments.cumsum(axis=0) if as_mode(mode) == "cumulative" else increments
    return MomentProbe("random", list(totals), as_mode(mode))
