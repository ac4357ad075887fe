"""From recovered features back to pixels, where the encoder is simple enough to be undone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from exhume.attack.block import Block
from exhume.audit.plan import Facing, Plan
from exhume.data import encoders, sets
from exhume.data.encoders.random_relu import RandomRelu
from exhume.errors import ExhumeError
from exhume.numerics import Matrix, Rows
from exhume.simulate.trial import Campaign

__all__ = ["Gallery", "Reader", "gallery"]

SHOWN = 6
ACTIVE = 1e-3
"""A unit counts as active if its recovered value exceeds this share of the largest."""


@dataclass(frozen=True)
class Gallery:
    """Deleted images beside what came out of the heads."""

    probe: str
    recovery: str
    how: str
    """How pixels were made of features."""
    originals: Matrix
    """SHOWN x H x W, from 0 to 1."""
    recovered: dict[str, Matrix]
    """The same per server; rows of NaN where nothing was recovered."""

    def error(self, server: str) -> float:
        """Return the median relative pixel error on a server."""
        flat = self.originals.reshape(len(self.originals), -1)
        gap = self.recovered[server].reshape(flat.shape) - flat
        return float(np.median(np.linalg.norm(gap, axis=1) / np.linalg.norm(flat, axis=1)))


class Reader:
    """Turns features of a random-ReLU or flattening encoder into pixels, with the attacker's own images as prior.

    A ReLU unit that is active is a linear equation on the pixels. The equations of all active units are solved by least
    squares, regularised by mean and covariance of the attacker's own images (a Gaussian prior), and clipped to the
    range of pixels.
    """

    def __init__(self, projection: Matrix | None, own: Matrix) -> None:
        self.width = own.shape[1]
        self._mean = own.mean(axis=0)
        self._covariance = np.atleast_2d(np.cov(own.T)) + 1e-3 * np.eye(own.shape[1])
        width = self.width
        if projection is not None:
            centred = np.eye(width) - 1.0 / width
            self._equations: Matrix | None = (centred @ projection).T
            self.how = "least squares on the active ReLU units, with the attacker's own images as prior"
        else:
            self._equations = None
            self.how = "the features are the pixels"

    def read(self, feature: Matrix) -> Matrix:
        """Return the pixels of one recovered feature vector, from 0 to 1."""
        if self._equations is None:
            return np.clip(feature / 255.0, 0.0, 1.0)
        active = feature > ACTIVE * max(float(feature.max()), 1e-300)
        M, f = self._equations[active], feature[active]
        spread = M @ self._covariance
        system = spread @ M.T
        system.flat[:: len(system) + 1] += 1e-8 * np.trace(system) / len(system)
        pixels: Matrix = self._mean + spread.T @ np.linalg.solve(system, f - M @ self._mean)
        return np.clip(pixels, 0.0, 1.0)


def gallery(plan: Plan) -> Gallery | None:
    """Attack a few record deletions once more and picture what came out; None where there is nothing to picture."""
    settings = plan.settings
    entry = sets.REGISTRY.get(settings.data)
    if entry is None or len(entry.shape) != 2 or settings.encoder not in ("none", "random-relu"):
        return None
    rows = [plan.rows(d) for d in plan.deletions() if d.kind == "record"][:SHOWN]
    if not rows:
        return None
    width = int(np.prod(entry.shape))
    images = sets.load(settings.data, settings.home).train_images.reshape(-1, width) / 255.0
    model = encoders.build(settings.encoder, encoders.Options(width, plan.settings.width, settings.seed))
    projection = model.projection.astype(np.float64) if isinstance(model, RandomRelu) else None
    reader = Reader(projection, images[plan.scenario.parts[plan.scenario.attacker]])
    probe = "own-data" if "own-data" in settings.probe else settings.probe[0]
    recovery = "rank-one" if "rank-one" in settings.recovery else settings.recovery[0]
    recovered = {}
    for facing in plan.facings:
        name = facing.precision if facing.bare else facing.server
        with threadpool_limits(limits=1):
            recovered[name] = _recovered(plan, reader, probe, facing, recovery, rows).reshape(-1, *entry.shape)
    originals = images[np.concatenate(rows)].reshape(-1, *entry.shape)
    return Gallery(probe, recovery, reader.how, originals, recovered)


def _recovered(plan: Plan, reader: Reader, probe: str, facing: Facing, recovery: str, rows: list[Rows]) -> Matrix:
    width = reader.width
    found = np.full((len(rows), width), np.nan)
    try:
        campaign = Campaign(plan.federation(facing), plan.probe(probe))
    except ExhumeError:
        return found
    for i, row in enumerate(rows):
        try:
            block: Block | None = campaign.trial(row, (recovery,), "record").blocks.get(recovery)
        except ExhumeError:
            continue
        if block is not None:
            found[i] = reader.read(block.as_sample().feature)
    return found
