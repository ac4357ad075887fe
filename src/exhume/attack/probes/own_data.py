"""The attacker-data probe: cumulative additions of the attacker's own rows, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exhume.attack._linalg import Matrix
from exhume.attack.probes.base import Step
from exhume.errors import InputError
from exhume.protocol.summary import Summary, Update

__all__ = ["OwnDataProbe", "own_data"]


@dataclass(frozen=True)
class OwnDataProbe:
    """Step j adds the j-th batch of rows; one deletion of all of them ends the sequence."""

    name: str
    features: Matrix
    labels: NDArray[np.intp]
    classes: int
    batches: tuple[NDArray[np.intp], ...]

    @property
    def responses(self) -> int:
        """How many responses go into the stacks."""
        return len(self.batches)

    def steps(self) -> Iterator[Step]:
        """Yield the additions in order."""
        for rows in self.batches:
            yield Step(Update.adding(Summary.of(self.features[rows], self.labels[rows], self.classes)))

    def cancel(self, total: Summary) -> Update:
        """Return the deletion of everything that was added."""
        return Update.deleting(total)

    def __repr__(self) -> str:
        return f"own_data(rows={len(self.features)}, d={self.features.shape[1]}, c={self.classes}, m={self.responses})"


def own_data(
    features: Matrix, labels: NDArray[np.intp], classes: int, *, responses: int, rng: np.random.Generator
) -> OwnDataProbe:
    """Return the rows, permuted, cut without overlap into ``responses`` batches of nearly equal size."""
    if not 1 <= responses <= len(features):
        raise InputError("responses", f"from 1 to the number of rows, {len(features)}", responses)
    order = rng.permutation(len(features))
    return OwnDataProbe("own_data", features, labels, classes, tuple(np.array_split(order, responses)))
