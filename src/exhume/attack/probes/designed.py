"""The designed probe of Corollary 1: full rank with the fewest possible responses, condition number one."""

from __future__ import annotations

import math

import numpy as np

from exhume.attack.probes.base import MomentProbe, as_mode
from exhume.errors import InputError

__all__ = ["designed"]


def designed(d: int, c: int, *, scale: float = 1e4, mode: str = "cumulative") -> MomentProbe:
    """Return the probe ``Q = [scale I, 0]`` cut into ceil(d/c) blocks of c columns."""
    if d < 1 or c < 1:
        raise InputError("d, c", "at least 1", (d, c))
    if not (math.isfinite(scale) and scale > 0):
        raise InputError("scale", "a finite number above 0", scale)
    m = math.ceil(d / c)
    stack = np.zeros((d, m * c))
    stack[:, :d] = scale * np.eye(d)
    return MomentProbe("designed", [stack[:, j * c : (j + 1) * c] for j in range(m)], as_mode(mode))
