"""The registry of probes: one call shape for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points

import numpy as np
from numpy.typing import NDArray

from exhume.attack._linalg import Matrix
from exhume.attack.probes.base import Probe
from exhume.attack.probes.designed import designed
from exhume.attack.probes.label_swap import label_swap
from exhume.attack.probes.own_data import own_data
from exhume.attack.probes.random import random
from exhume.errors import InputError, unknown_name

__all__ = ["PROBES", "Means", "build"]


@dataclass(frozen=True)
class Means:
    """What a malicious client has to make a probe of: the public sizes, its own rows, a source of randomness."""

    d: int
    c: int
    features: Matrix
    labels: NDArray[np.intp]
    rng: np.random.Generator
    scale: float = 1e4
    responses: int | None = None


def _own_data(means: Means) -> Probe:
    # Twice the dimensional lower bound: the bound itself is rarely enough for attacker data (the paper's m = 104).
    m = means.responses if means.responses is not None else min(2 * math.ceil(means.d / means.c), len(means.features))
    return own_data(means.features, means.labels, means.c, responses=m, rng=means.rng)


def _designed(means: Means) -> Probe:
    least = math.ceil(means.d / means.c)
    if means.responses not in (None, least):
        raise InputError("responses", f"{least} = ceil(d/c), the designed probe's own number", means.responses)
    return designed(means.d, means.c, scale=means.scale)


def _random(means: Means) -> Probe:
    return random(means.d, means.c, rng=means.rng, responses=means.responses, scale=means.scale)


PROBES: dict[str, Callable[[Means], Probe]] = {
    "designed": _designed,
    "random": _random,
    "label_swap": lambda means: label_swap(means.features, means.c, responses=means.responses),
    "own_data": _own_data,
}


def build(name: str, means: Means) -> Probe:
    """Make a probe by its registered name."""
    if name in PROBES:
        return PROBES[name](means)
    for point in entry_points(group="exhume.probes"):
        if point.name == name:
            made = point.load()(means)
            if not isinstance(made.name, str):
                raise InputError("probe", f"a Probe from the entry point '{name}'", type(made).__name__)
            return made  # type: ignore[no-any-return]
    raise unknown_name("probe", name, [*PROBES, *(p.name for p in entry_points(group="exhume.probes"))])
