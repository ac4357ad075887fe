"""Algebraic ownership: after every message, what a client has left must still be what some rows can make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from exhume.defence.admission._numbers import MOST_ROWS, UNIT, whitened_moment
from exhume.defence.memory import Memory, Saveable, client_names, keep_entries
from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol import AdmissionRule, Summary, Update
from exhume.protocol.message import Message, message
from exhume.protocol.rules import Undo

__all__ = ["AlgebraicOwnership", "Standing"]


@dataclass(frozen=True)
class Standing:
    """What one client has in the ledger, and how far roundoff may have moved it."""

    total: Summary
    counts: Matrix | None
    """Declared rows per class; None once a message declared none."""
    roundoff: float
    """Bound on the error of the total gram's eigenvalues."""


class AlgebraicOwnership(Saveable, AdmissionRule):
    """Refuses a message after which ``[[S_k, G_k], [G_k', N_k]]`` of its client is not positive semidefinite.

    By the Schur complement the test is ``G' S^+ G <= N``. With ``N = 0`` for a client that added nothing, it
    can delete nothing; a client with data can move its moment by ``Q`` only while ``|S_k^(-1/2) (G_k + Q)|^2`` stays
    below its rows. That bounds a fabricated probe by the slack of the client's own data, standing total by standing
    total; it does not bound its rank.

    The counts are not in an update. Declared ones (`count`) are summed per class, each declaration being checked
    against its own block: no fewer rows than the block's algebra needs, no more than its trace allows. A client
    that declares none is given ``trace(S_k) / least_norm^2`` rows for every class, an upper bound for honest rows.

    Float64 does not resolve a deletion 1e-11 the size of the largest addition: an attacker who may add blocks of any
    size can hide fabricated deletions in the roundoff that the rule must allow. Put `NormLimit` before it.

    Parameters
    ----------
    least_norm
        A lower bound on the length of an honest feature vector (1 for normalised features;
        `AlgebraicOwnership.measure` takes it from a sample, with a margin).
    unit
        Unit roundoff of the arithmetic in which clients sum their rows.
    """

    name = "algebraic-ownership"
    about = "what a client has left must be what some rows can make"
    reads: ClassVar[str] = "client"
    example: ClassVar[Mapping[str, Any]] = {"least_norm": 0.1}
    former = ("slack",)

    def __init__(self, least_norm: float, unit: float = UNIT) -> None:
        if not (math.isfinite(least_norm) and least_norm > 0):
            raise InputError("least_norm", "a finite number above 0", least_norm)
        self.least_norm = least_norm
        self.unit = unit
        self._standing: dict[str, Standing] = {}

    @staticmethod
    def measure(features: Matrix, margin: float = 0.5) -> float:
        """Return the shortest honest row's length times a margin."""
        return float(np.linalg.norm(features, axis=1).min()) * margin

    def standing(self, client: str, d: int, c: int) -> Standing:
        """Return what a client has in the ledger."""
        return self._standing.get(client) or Standing(Summary.zeros(d, c), np.zeros(c), 0.0)

    def refuse(self, update: Update, client: str) -> str | None:
        """Test the declarations, then what would be left."""
        told = message(update)
        sides = (("add", update.add, told.added_counts), ("delete", update.delete, told.deleted_counts))
        for side, summary, counts in sides:
            if counts is not None and (reason := self._declared(summary, counts)) is not None:
                return f"{self.name}: {side}: {reason}"
        # What is deleted was there before the message: a giant addition in the same message must not pay for it.
        left = self._after(told if update.add.is_zero else _only_deleting(told), client)
        if (reason := self._feasible(left)) is not None:
            return f"{self.name}: after this deletion '{client}' would have {reason}"
        if not update.add.is_zero and (reason := self._feasible(self._after(told, client))) is not None:
            return f"{self.name}: after this message '{client}' would have {reason}"
        return None

    def record(self, update: Update, client: str) -> None:
        """Carry the client's totals on."""
        self._standing[client] = self._after(update, client)

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Keep these clients' totals."""
        return keep_entries(self._standing, clients)

    def _rows(self, summary: Summary) -> float:
        return max(summary.trace, 0.0) / self.least_norm**2

    def _roundoff(self, summary: Summary) -> float:
        # n u trace(S) for the sum of n rows, and as much again for the solve of the test.
        rows = min(self._rows(summary), MOST_ROWS) + summary.d
        return 2.0 * rows * self.unit * max(summary.trace, 0.0)

    def _after(self, update: Update, client: str) -> Standing:
        old = self.standing(client, update.d, update.c)
        roundoff = old.roundoff + self._roundoff(update.add) + self._roundoff(update.delete)
        counts = None
        told = message(update)
        if told.added_counts is not None and told.deleted_counts is not None and old.counts is not None:
            counts = old.counts + np.array(told.added_counts) - np.array(told.deleted_counts)
        total = old.total + update.net
        return Standing(total, counts, roundoff)

    def _declared(self, summary: Summary, counts: tuple[int, ...]) -> str | None:
        declared = np.array(counts, dtype=float)
        if declared.sum() > self._rows(summary) * (1 + 1e-9):
            return f"declares {declared.sum():.0f} rows; its trace allows {self._rows(summary):.1f}"
        return self._feasible(Standing(summary, declared, self._roundoff(summary)))

    def _feasible(self, standing: Standing) -> str | None:
        total = standing.total
        if standing.counts is not None and (standing.counts < 0).any():
            return "a negative number of rows"
        if total.is_zero:
            return None
        floor = max(standing.roundoff, np.finfo(float).tiny)
        white = whitened_moment(total, floor)
        if white is None:
            return f"a gram that is not positive semidefinite (to {floor:.2g}): more was deleted than added"
        # Half a row of room keeps an emptied client's roundoff from counting; it allows moments of sqrt(floor / 2).
        if standing.counts is None:
            allowed = self._rows(total) + 0.5
            needed = float(np.linalg.norm(white, 2)) ** 2
            if needed > allowed * (1 + 1e-9):
                return f"a moment that takes at least {needed:.4g} rows, with at most {allowed:.4g} left"
            return None
        excess = float(np.linalg.eigvalsh(white.T @ white - np.diag(standing.counts + 0.5))[-1])
        if excess > 1e-9 * (1.0 + float(standing.counts.max())):
            return f"a moment beyond its declared class counts (by {excess:.3g} rows)"
        return None

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"least_norm": self.least_norm, "unit": self.unit}

    def remembered(self) -> Memory:
        """Return every client's totals."""
        clients: dict[str, Any] = {}
        arrays: dict[str, Matrix] = {}
        for i, (client, kept) in enumerate(self._standing.items()):
            clients[client] = {"counts": None if kept.counts is None else list(kept.counts), "roundoff": kept.roundoff}
            arrays |= {f"gram {i}": kept.total.gram, f"moment {i}": kept.total.moment}
        return Memory({"clients": clients, "order": client_names(clients)}, arrays)

    def restore(self, memory: Memory) -> None:
        """Take over every client's totals."""
        self._standing = {}
        arrays = memory.arrays
        for i, client in enumerate(memory.values["order"]):
            kept = memory.values["clients"][client]
            counts = None if kept["counts"] is None else np.array(kept["counts"], dtype=np.float64)
            total = Summary.kept(arrays[f"gram {i}"], arrays[f"moment {i}"])
            self._standing[client] = Standing(total, counts, float(kept["roundoff"]))


def _only_deleting(told: Message) -> Message:
    counts = None if told.added_counts is None else (0,) * told.c
    return replace(told, add=Summary.zeros(told.d, told.c), added_counts=counts)


RULES = (AlgebraicOwnership,)
