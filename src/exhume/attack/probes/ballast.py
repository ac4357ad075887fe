"""Ballast: a known multiple of the identity that the attacker adds first, so that the state is well conditioned.

What a head tells of the state is limited by the state's condition number: by the server's own rounding, and by that of
the heads that it releases. But the client may change the state. With ``rho I`` on top of the gram every eigenvalue of A
is at least rho, whatever the ridge and however few rows there are; what is identified is ``A + rho I``, and a deletion
takes the same block from it. The ballast stands as long as the attack goes on, and is taken back at its end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from exhume.attack.probes.base import MomentProbe, Probe, ProbeEntry, Resources, check_scale, check_sizes
from exhume.attack.probes.designed import designed
from exhume.errors import InputError
from exhume.numerics import Matrix, largest_eigenvalue
from exhume.protocol.summary import Summary

__all__ = ["PROBES", "BallastProbe", "ballast", "weight_for"]

SHARE = 1e-2
"""Ballast over the largest eigenvalue of the attacker's own gram. A smaller one leaves a larger condition number; one
above everybody's rows would drown their part of the head."""

LARGEST = 1e100
"""Largest entry of rows that a weight is taken from, and its inverse the smallest: squares stay far inside float64."""


@dataclass(frozen=True, repr=False)
class BallastProbe(MomentProbe):
    """A designed probe of a state that has had ``weight`` times the identity added to its gram."""

    weight: float = 0.0

    @property
    def ballast(self) -> Summary:
        """What must stand in the ledger before the first step, and is taken back after the last use of the state."""
        d, c = self.totals[0].shape
        return Summary(self.weight * np.eye(d), np.zeros((d, c)))


def ballast(d: int, c: int, *, weight: float, scale: float | None = None) -> BallastProbe:
    """Return the designed probe of a state with a ballast.

    Parameters
    ----------
    d, c
        Sizes of the head.
    weight
        The multiple of the identity (`weight_for` takes it from rows of one's own).
    scale
        Size of the moments, as in `designed`; by default the weight, so that the answers are about 1.
    """
    check_sizes(d, c)
    check_scale(weight, "weight")
    size = weight if scale is None else scale
    check_scale(size)
    return BallastProbe("ballast", designed(d, c, scale=size).totals, weight=weight)


def weight_for(features: Any) -> float:
    """Return a ballast for a federation of which these rows are a part: a share of their gram's largest eigenvalue.

    Raises
    ------
    InputError
        If these are no rows of finite numbers, all are zero, or their squares leave the range of float64.
    """
    features = _rows(features)
    if min(features.shape) < 2:
        return SHARE * float(np.square(features).sum())
    small = features @ features.T if len(features) <= features.shape[1] else features.T @ features
    return SHARE * float(largest_eigenvalue(small.__matmul__, len(small)) if len(small) > 2 else np.trace(small))


def _rows(features: Any) -> Matrix:
    try:
        rows: Matrix = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("features", "rows of numbers", type(features).__name__) from None
    if rows.ndim != 2:
        raise InputError("features", "rows: an array of two axes", f"shape {rows.shape}")
    largest = max(float(rows.max()), -float(rows.min())) if rows.size else 0.0
    if largest == 0.0:
        raise InputError("features", "rows of which some are not zero", f"{len(rows)} zero ones")
    if not math.isfinite(largest):
        raise InputError("features", "finite", "values that are not")
    if not 1.0 / LARGEST <= largest <= LARGEST:
        allowed = f"rows whose largest entry is from {1.0 / LARGEST:g} to {LARGEST:g}: they are squared"
        raise InputError("features", allowed, f"{largest:g}")
    return rows


def _build(of: Resources) -> Probe:
    least = math.ceil(of.d / of.c)
    if of.responses not in (None, least):
        raise InputError("responses", f"{least} = ceil(d/c), the designed probe's own number", of.responses)
    weight = weight_for(of.features)
    return ballast(of.d, of.c, weight=weight, scale=max(of.scale, weight))


PROBES = (
    ProbeEntry(
        "ballast",
        "a multiple of the identity, which stays while the attack runs, then made-up matrices as designed",
        _build,
        few_rows=True,
        stands=True,
    ),
)
