"""The conditioned probe: shaped by a guess of the state, so that the responses are well conditioned.

It is made of a guess of A and not of what a client has, so no registry lists it: `strategies.conditioned` makes it.
"""

from __future__ import annotations

import math

import numpy as np

from exhume.attack.probes.base import MomentProbe, check_scale
from exhume.numerics import Matrix

__all__ = ["conditioned"]


def conditioned(guess: Matrix, c: int, *, scale: float = 1e3) -> MomentProbe:
    """Return the probe whose target totals are the columns of ``scale * guess``, c at a time."""
    check_scale(scale)
    d = len(guess)
    stack = np.zeros((d, math.ceil(d / c) * c))
    stack[:, :d] = scale * guess
    return MomentProbe("conditioned", np.hsplit(stack, stack.shape[1] // c))
