"""A federation to attack: who holds which rows, who is malicious, what the server has in its ledger."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from exhume.errors import InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Heads
from exhume.protocol.server import Server
from exhume.protocol.summary import Summary

__all__ = ["Scenario"]


@dataclass(frozen=True)
class Scenario:
    """Clients with their rows, one of them malicious, and a server that has everybody's rows in its ledger."""

    features: Matrix
    labels: Rows
    classes: int
    parts: tuple[Rows, ...]
    """The rows of each client."""
    attacker: int
    """Which client is malicious."""
    gamma: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 <= self.attacker < len(self.parts):
            raise InputError("attacker", f"a client from 0 to {len(self.parts) - 1}", self.attacker)

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return int(self.features.shape[1])

    @cached_property
    def total(self) -> Summary:
        """Everybody's rows, summed."""
        return self.summary(np.concatenate(self.parts))

    @property
    def own(self) -> tuple[Matrix, Rows]:
        """Features and labels that the malicious client holds."""
        rows = self.parts[self.attacker]
        return self.features[rows], self.labels[rows]

    @cached_property
    def others(self) -> Rows:
        """The rows that the malicious client does not hold, in order."""
        held = np.zeros(len(self.features), dtype=bool)
        held[np.concatenate(self.parts)] = True
        held[self.parts[self.attacker]] = False
        return np.flatnonzero(held)

    def summary(self, rows: Rows) -> Summary:
        """Summarise some rows."""
        return Summary.of(self.features[rows], self.labels[rows], self.classes)

    def server(self, heads: str = "float64") -> Server:
        """Return the paper's server with everybody's rows in its ledger."""
        return Server(Ledger(self.total, self.gamma), release=Heads(heads))
