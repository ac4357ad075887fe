"""What admission rules that remember something share: a name, and a memory that can be saved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from exhume.defence._state import pack, unpack
from exhume.defence.admission._numbers import Matrix
from exhume.protocol import AdmissionRule

__all__ = ["Remembering", "named", "stacked"]


class Remembering(AdmissionRule):
    """An admission rule whose memory outlives the process. A saved memory holds secrets: keep it as the ledger."""

    name: ClassVar[str] = ""

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """Return the arguments that a saved memory must agree with."""

    @abstractmethod
    def memory(self) -> tuple[dict[str, Any], dict[str, Matrix]]:
        """Return what the rule remembers: plain values, and arrays by name."""

    @abstractmethod
    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, Matrix]) -> None:
        """Take over what `memory` returned."""

    def save(self) -> bytes:
        """Write name, configuration and memory."""
        return pack(self.name, self.configuration(), *self.memory())

    def load(self, data: bytes) -> None:
        """Take over a saved memory; one of another rule or configuration is refused by name."""
        saved = unpack(data, self.name, self.configuration())
        self.restore(saved.values, saved.arrays)


def stacked(vectors: Iterable[Matrix], width: int) -> Matrix:
    """Return vectors as the rows of one matrix, also if there are none."""
    rows = list(vectors)
    return np.array(rows, dtype=np.float64) if rows else np.empty((0, width))


def named(names: Iterable[str], rows: Matrix) -> dict[str, list[Matrix]]:
    """Return rows by the name that goes with each."""
    found: dict[str, list[Matrix]] = {}
    for name, row in zip(names, rows, strict=True):
        found.setdefault(str(name), []).append(row.copy())
    return found
