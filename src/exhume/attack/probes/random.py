"""The random probe: independent Gaussian moment increments."""

from __future__ import annotations

import math

import numpy as np

from exhume.attack.probes.base import MomentProbe, Probe, ProbeEntry, Resources, as_mode, check_scale, check_sizes
from exhume.errors import InputError

__all__ = ["PROBES", "random"]


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
    check_sizes(d, c)
    check_scale(scale)
    m = math.ceil(d / c) if responses is None else responses
    if m < 1:
        raise InputError("responses", "at least 1", m)
    increments = scale * rng.standard_normal((m, d, c))
    totals = increments.cumsum(axis=0) if as_mode(mode) == "cumulative" else increments
    return MomentProbe("random", list(totals), as_mode(mode))


def _build(of: Resources) -> Probe:
    return random(of.d, of.c, rng=of.rng, responses=of.responses, scale=of.scale)


PROBES = (ProbeEntry("random", "made-up Gaussian matrices of scale {scale:g}", _build, live=True),)
