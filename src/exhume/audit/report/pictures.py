"""From recovered features back to pixels: by undoing a simple encoder, else by a decoder of the attacker's own rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from exhume.attack.block import Block
from exhume.audit.plan import Facing, Plan
from exhume.audit.report.decoded import LocalReader, available
from exhume.data import ImageSet, encoders, sets
from exhume.data.encoders.random_relu import RandomRelu
from exhume.data.sets import DataSet
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
    null: Matrix | None = None
    """What the recovered labels alone give, where a decoder had to be trained."""

    def error(self, server: str) -> float:
        """Return the median relative pixel error on a server."""
        return self._off(self.recovered[server])

    @property
    def null_error(self) -> float | None:
        """The median relative pixel error of the null, where there is one."""
        return None if self.null is None else self._off(self.null)

    def _off(self, images: Matrix) -> float:
        flat = self.originals.reshape(len(self.originals), -1)
        gap = images.reshape(flat.shape) - flat
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
    if entry is None or plan.lean or not (_undoable(plan, entry) or available()):
        return None
    rows = [plan.rows(d) for d in plan.deletions() if d.kind == "record"][:SHOWN]
    if not rows:
        return None
    pictured = sets.load(settings.data, settings.home)
    reader = _reader(plan, entry, pictured)
    probe = "own-data" if "own-data" in settings.probe else settings.probe[0]
    recovery = "rank-one" if "rank-one" in settings.recovery else settings.recovery[0]
    recovered, nulls = {}, []
    for facing in plan.facings:
        name = facing.precision if facing.bare else facing.server
        with threadpool_limits(limits=1):
            drawn, plain = _recovered(plan, reader, probe, facing, recovery, rows)
        recovered[name] = drawn.reshape(-1, *entry.shape)
        nulls.append(plain)
    originals = pictured.train_images[np.concatenate(rows)] / 255.0
    null = nulls[0].reshape(-1, *entry.shape) if isinstance(reader, LocalReader) else None
    return Gallery(probe, recovery, reader.how, originals, recovered, null)


def _undoable(plan: Plan, entry: DataSet) -> bool:
    return len(entry.shape) == 2 and plan.settings.encoder in ("none", "random-relu")


def _reader(plan: Plan, entry: DataSet, pictured: ImageSet) -> Reader | LocalReader:
    settings, stage = plan.settings, plan.scenario
    own = stage.parts[stage.attacker]
    if not _undoable(plan, entry):
        return LocalReader(stage.features[own], pictured.train_images[own], stage.labels[own], settings.encoder)
    width = int(np.prod(entry.shape))
    model = encoders.build(settings.encoder, encoders.Options(width, settings.width, settings.seed))
    projection = model.projection.astype(np.float64) if isinstance(model, RandomRelu) else None
    return Reader(projection, pictured.train_images[own].reshape(-1, width) / 255.0)


def _recovered(
    plan: Plan, reader: Reader | LocalReader, probe: str, facing: Facing, recovery: str, rows: list[Rows]
) -> tuple[Matrix, Matrix]:
    """Return what came out, and what the recovered label alone would give where a decoder was trained."""
    found, null = (np.full((len(rows), reader.width), np.nan) for _ in range(2))
    try:
        campaign = Campaign(plan.federation(facing), plan.probe(probe))
    except ExhumeError:
        return found, null
    for i, row in enumerate(rows):
        try:
            block: Block | None = campaign.trial(row, (recovery,), "record").blocks.get(recovery)
        except ExhumeError:
            continue
        if block is not None:
            label, feature = block.as_sample()
            found[i] = reader.read(feature)
            if isinstance(reader, LocalReader):
                null[i] = reader.null(feature, label)
    return found, null
