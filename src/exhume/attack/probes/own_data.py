"""The attacker-data probe: the attacker's own rows, added batch by batch or half against half."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from exhume.attack.coordinates import Coordinates
from exhume.attack.probes.base import Probe, ProbeEntry, Resources, Step
from exhume.errors import InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.summary import Summary, Update

__all__ = ["PROBES", "OwnDataProbe", "own_data"]

MOST_KEPT = 2**28
"""Bytes of grams that a probe may keep for its next run."""


@dataclass(frozen=True)
class OwnDataProbe:
    """Step j adds the j-th batch of rows, taking back the one before if so wanted; one deletion ends the sequence."""

    name: str
    features: Matrix
    labels: Rows
    classes: int
    batches: tuple[Rows, ...]
    replacing: bool = False
    """Whether each batch takes the place of the one before instead of joining it."""

    @property
    def coordinates(self) -> Coordinates | None:
        """The coordinates in which the rows are not all zero: of the others this probe can say nothing."""
        return Coordinates.of_rows(self.features)

    @property
    def responses(self) -> int:
        """How many responses go into the stacks."""
        return len(self.batches)

    def steps(self) -> Iterator[Step]:
        """Yield the messages in order."""
        before = Summary.zeros(self.features.shape[1], self.classes)
        for batch in self._summaries():
            yield Step(Update(batch, before))
            if self.replacing:
                before = batch

    def _summaries(self) -> Iterable[Summary]:
        # Summaries of few features keep their gram once it is written out, which a second run then need not do.
        size = 8 * len(self.batches) * self.features.shape[1] ** 2
        return self._kept if size <= MOST_KEPT else self._made()

    def _made(self) -> Iterator[Summary]:
        for rows in self.batches:
            yield Summary.of(self.features[rows], self.labels[rows], self.classes)

    @cached_property
    def _kept(self) -> tuple[Summary, ...]:
        return tuple(self._made())

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    def cancel(self, total: Summary, sent: int) -> Update:
        """Return the deletion of everything that was added."""
        return Update.deleting(total)

    def __repr__(self) -> str:
        return f"own_data(rows={len(self.features)}, d={self.features.shape[1]}, c={self.classes}, m={self.responses})"


def own_data(
    features: Matrix,
    labels: Rows,
    classes: int,
    *,
    responses: int,
    rng: np.random.Generator,
    mode: str = "cumulative",
) -> OwnDataProbe:
    """Return a probe of the attacker's own rows.

    ``"cumulative"`` is the paper's: the rows, permuted, cut without overlap into ``responses`` batches that add up.
    ``"halves"`` sends a random half of the rows each time in place of the one before: every response then differs much
    from the baseline, which makes better conditioned stacks of the same number of responses.
    """
    if not 1 <= responses <= len(features):
        raise InputError("responses", f"from 1 to the number of rows, {len(features)}", responses)
    if labels.shape != (len(features),):
        raise InputError("labels", f"one per row, {len(features)}", f"shape {labels.shape}")
    if mode == "halves":
        halves = tuple(rng.permutation(len(features))[: (len(features) + 1) // 2] for _ in range(responses))
        return OwnDataProbe("own-data", features, labels, classes, halves, replacing=True)
    if mode != "cumulative":
        raise InputError("mode", "'cumulative' or 'halves'", f"'{mode}'")
    order = rng.permutation(len(features))
    return OwnDataProbe("own-data", features, labels, classes, tuple(np.array_split(order, responses)))


def _build(of: Resources) -> Probe:
    # Twice the dimensional lower bound: the bound itself is rarely enough for attacker data (the paper's m = 104).
    m = of.responses if of.responses is not None else min(2 * math.ceil(of.d / of.c), len(of.features))
    return own_data(of.features, of.labels, of.c, responses=m, rng=of.rng)


PROBES = (ProbeEntry("own-data", "its own records, added once more batch by batch, nothing made up", _build),)
