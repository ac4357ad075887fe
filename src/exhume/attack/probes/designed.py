"""The designed probe of Corollary 1: full rank with the fewest possible responses, condition number one."""

from __future__ import annotations

import math

import numpy as np

from exhume.attack._linalg import diagonal
from exhume.attack.coordinates import Coordinates
from exhume.attack.probes.base import MomentProbe, Probe, ProbeEntry, Resources, as_mode, check_scale, check_sizes
from exhume.errors import InputError

__all__ = ["PROBES", "designed"]


def designed(
    d: int,
    c: int,
    *,
    scale: float = 1e4,
    mode: str = "cumulative",
    spare: int = 0,
    coordinates: Coordinates | None = None,
) -> MomentProbe:
    """Return the probe ``Q = [scale I, 0]`` cut into ceil(d/c) blocks of c columns.

    With ``spare`` the last so many classes are left alone in every message, at the price of ceil(d/(c - spare)) blocks:
    what moves there is somebody else's doing (`strategies.watch`). With coordinates (all of them live) each column is
    in units of its feature: ``Q = [scale diag(t), 0]``.
    """
    check_sizes(d, c)
    check_scale(scale)
    if not 0 <= spare < c:
        raise InputError("spare", f"from 0 to {c - 1}", spare)
    used = c - spare
    stack = diagonal(
        np.full(d, scale) if coordinates is None else scale * coordinates.units, math.ceil(d / used) * used
    )
    blocks = [stack[:, j : j + used] for j in range(0, stack.shape[1], used)]
    if spare:
        blocks = [np.pad(block, ((0, 0), (0, spare))) for block in blocks]
    return MomentProbe("designed", blocks, as_mode(mode), coordinates)


def _build(of: Resources) -> Probe:
    least = math.ceil(of.d / of.c)
    if of.responses not in (None, least):
        raise InputError("responses", f"{least} = ceil(d/c), the designed probe's own number", of.responses)
    return designed(of.d, of.c, scale=of.scale, coordinates=Coordinates.scaled_by(of.features))


PROBES = (
    ProbeEntry(
        "designed",
        "made-up matrices of scale {scale:g} that reach full rank with the fewest responses",
        _build,
        live=True,
    ),
)
