"""The label-swap probe of Lemma 2: the attacker's real features, added under one label, deleted under another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr

from exhume.attack.coordinates import Coordinates
from exhume.attack.probes.base import Probe, ProbeEntry, Resources, Step
from exhume.errors import InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.summary import Summary, Update

__all__ = ["PROBES", "LabelSwapProbe", "label_swap"]


@dataclass(frozen=True)
class LabelSwapProbe:
    """Step j adds c - 1 genuine features under the first c - 1 labels and deletes the same under the last one."""

    name: str
    features: Matrix
    rows: Rows
    """One row of the features per step and label (m x (c - 1))."""

    @property
    def coordinates(self) -> Coordinates | None:
        """The coordinates in which the features are not all zero: of the others this probe can say nothing."""
        return Coordinates.of_rows(self.features)

    @property
    def responses(self) -> int:
        """How many responses go into the stacks."""
        return len(self.rows)

    def steps(self) -> Iterator[Step]:
        """Yield the submissions in order; the swaps accumulate."""
        c = self.rows.shape[1] + 1
        for chosen in self.rows:
            batch = self.features[chosen]
            add = Summary.of(batch, np.arange(c - 1), c)
            delete = Summary.of(batch, np.full(c - 1, c - 1), c)
            yield Step(Update(add, add.with_moment(delete.moment), pairs=c - 1))

    def cancel(self, total: Summary, sent: int) -> Update:
        """Return the update that swaps the labels of the first ``sent`` steps back."""
        c = self.rows.shape[1] + 1
        batch = self.features[self.rows[:sent].ravel()]
        add = Summary.of(batch, np.full(len(batch), c - 1), c)
        delete = Summary.of(batch, np.tile(np.arange(c - 1), sent), c)
        return Update(add, add.with_moment(delete.moment), pairs=len(batch))

    def __repr__(self) -> str:
        return f"label_swap(d={self.features.shape[1]}, c={self.rows.shape[1] + 1}, m={self.responses})"


def label_swap(features: Matrix, c: int, *, responses: int | None = None) -> LabelSwapProbe:
    """Return a label-swap probe of ``responses`` (default ceil(d/(c-1))) steps from the attacker's own features.

    Rows are taken in the order of a pivoted QR, so that the first d of them span what the features span.
    """
    if c < 2:
        raise InputError("c", "at least 2 (a label must have another to be swapped with)", c)
    features = np.asarray(features, dtype=np.float64)
    if features.ndim != 2:
        raise InputError("features", "a two-dimensional array", f"shape {features.shape}")
    n, d = features.shape
    m = math.ceil(d / (c - 1)) if responses is None else responses
    if m < 1:
        raise InputError("responses", "at least 1", m)
    if n < 1:
        raise InputError("features", "at least one row", n)
    order = qr(features.T, mode="r", pivoting=True, check_finite=False)[-1]
    rows = np.resize(np.asarray(order, dtype=np.intp), m * (c - 1)).reshape(m, c - 1)
    return LabelSwapProbe("label-swap", features, rows)


def _build(of: Resources) -> Probe:
    return label_swap(of.features, of.c, responses=of.responses)


PROBES = (ProbeEntry("label-swap", "its real features, added under one label and deleted under another", _build),)
