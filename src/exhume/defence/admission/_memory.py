"""What admission rules that remember something share: a name, and a memory that can be saved."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from exhume.defence._state import pack, unpack
from exhume.defence.admission._numbers import Matrix
from exhume.protocol import AdmissionRule
from exhume.protocol.rules import Undo, keep

__all__ = ["Remembering", "named", "stacked"]


class Remembering(AdmissionRule):
    """An admission rule whose memory outlives the process. A saved memory holds secrets: keep it as the ledger.

    What it remembers are lists and tables of things that are replaced, never changed: a checkpoint copies the lists and
    tables only.
    """

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

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Keep the lists and tables of the memory, not what is in them."""
        return keep(self, **{name: _held(value) for name, value in self.__dict__.items()})

    def save(self) -> bytes:
        """Write name, configuration and memory."""
        return pack(self.name, self.configuration(), *self.memory())

    def load(self, data: bytes) -> None:
        """Take over a saved memory; one of another rule or configuration is refused by name."""
        saved = unpack(data, self.name, self.configuration())
        self.restore(saved.values, saved.arrays)


def _held(value: Any) -> Any:
    """Return a copy of a list, set, table or whatever knows how to copy itself; the things in them are shared."""
    if isinstance(value, dict):
        made = copy.copy(value)
        made.update((key, _held(item)) for key, item in value.items() if isinstance(item, (dict, list, set)))
        return made
    return copy.copy(value) if isinstance(value, (list, set)) or hasattr(type(value), "__copy__") else value


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
