"""Bounded influence: no message and no client moves the totals by more than a public amount."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from exhume.defence.bounds import HOW_TO_MEASURE, Bounds
from exhume.defence.memory import Memory, Saveable, client_names, keep_entries
from exhume.errors import InputError
from exhume.protocol import AdmissionRule, Batch, Summary, Update
from exhume.protocol.grid import headroom
from exhume.protocol.message import message
from exhume.protocol.rules import Undo

__all__ = ["BoundedInfluence", "seats"]

_ROUNDING = 1e-9
"""Relative room for the roundoff of honest sums."""


def seats(bounds: Bounds, grid: float) -> int:
    """Return how many clients within these bounds fit into half of what a grid holds exactly.

    The other half is for what the ledger holds at the start.
    """
    step = max(bounds.longest, grid)
    return math.floor(headroom(grid) / 2 / (bounds.client_rows * step**2 * (1.0 + _ROUNDING) ** 4))


class BoundedInfluence(Saveable, AdmissionRule):
    """Refuses what is longer, or more, than public bounds allow: per row, per message, per client.

    With rows shown, every row is measured. From sums alone, n rows no longer than b have a gram of trace at most
    ``n b^2``, and moment columns whose lengths add up to at most ``sqrt(n trace)`` (Cauchy-Schwarz): n is the declared
    number of rows, or the largest allowed. One number is kept per client, and the cost of a message does not depend on
    what came before.

    With bounded messages nothing is absorbed: totals of N standing rows have entries of at most ``N b^2``, so that one
    rounding takes at most ``2^-53 N b^2``, whatever was sent before and taken back.

    Parameters
    ----------
    longest, message_rows, client_rows
        See `exhume.defence.Bounds`; `Bounds.measure` takes them from rows of the operator's own.
    clients
        Most clients that may ever send something. On a grid there is always such a limit (`seats`).
    grid
        The ledger's grid step. A ledger on a grid refuses totals that it could not hold exactly, which is an answer
        about everybody's totals: the limit on clients keeps that refusal out of reach.
    """

    name = "bounded-influence"
    about = "no row, message or client beyond public bounds"
    example: ClassVar[Mapping[str, Any]] = {"longest": 10.0, "message_rows": 100, "client_rows": 100}
    reads: ClassVar[str] = "client"

    def __init__(
        self,
        longest: float | None = None,
        message_rows: int | None = None,
        client_rows: int | None = None,
        clients: int | None = None,
        grid: float | None = None,
    ) -> None:
        if longest is None or message_rows is None or client_rows is None:
            raise InputError("bounds", HOW_TO_MEASURE, "none")
        self.bounds = Bounds(longest, message_rows, client_rows)
        if clients is not None and clients < 1:
            raise InputError("clients", "at least 1", clients)
        self._asked, self.clients, self.room = clients, clients, math.inf
        if grid is not None:
            most = seats(self.bounds, grid)
            if most < 1:
                raise InputError("grid", "coarse enough for the rows of one client (or tighter bounds)", f"{grid:g}")
            if clients is not None and clients > most:
                raise InputError("clients", f"at most {most} on a grid of {grid:g}", clients)
            self.clients, self.room = clients or most, headroom(grid) / 2
        self._rows: dict[str, float] = {}

    def check_start(self, total: Summary) -> None:
        """Refuse totals of more than the half of a grid's room that is not the clients'."""
        if not (largest := float(total.diagonal().max())) < self.room:
            raise InputError("ledger", f"totals below {self.room:.4g} at the start on its grid", f"{largest:.4g}")

    def rows(self, client: str) -> float:
        """Return how many rows a client has standing, by weight where it did not say."""
        return self._rows.get(client, 0.0)

    def refuse(self, update: Update, client: str) -> str | None:
        """Measure both sides, then what the client would have."""
        told = message(update)
        sides = (
            ("add", update.add, told.added, told.added_counts),
            ("delete", update.delete, told.deleted, told.deleted_counts),
        )
        for side, summary, batch, counts in sides:
            if (reason := self._beyond(summary, batch, counts)) is not None:
                return f"{self.name}: {side}: {reason}"
        if self.clients is not None and client not in self._rows and len(self._rows) >= self.clients:
            return f"{self.name}: there are {self.clients} clients already"
        most = self.bounds.client_rows
        if self._after(update, client) > most * (1.0 + _ROUNDING) and not update.add.is_zero:
            return f"{self.name}: after this message '{client}' would have more than {most} rows"
        return None

    def record(self, update: Update, client: str) -> None:
        """Carry the client's rows on."""
        self._rows[client] = max(self._after(update, client), 0.0)

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Keep the rows of these clients."""
        return keep_entries(self._rows, clients)

    def _after(self, update: Update, client: str) -> float:
        told = message(update)
        added = self._weight(update.add, told.added, told.added_counts)
        return self.rows(client) + added - self._weight(update.delete, told.deleted, told.deleted_counts)

    def _weight(self, summary: Summary, batch: Batch | None, counts: Sequence[int] | None) -> float:
        if batch is not None:
            return float(len(batch.features))
        return float(sum(counts)) if counts is not None else summary.trace / self.bounds.longest**2

    def _beyond(self, summary: Summary, batch: Batch | None, counts: Sequence[int] | None) -> str | None:
        longest, most = self.bounds.longest, self.bounds.message_rows
        room = 1.0 + _ROUNDING
        if batch is not None:
            if len(batch.features) > most:
                return f"{len(batch.features)} rows; a message may have {most}"
            with np.errstate(over="ignore"):
                length = float(np.linalg.norm(batch.features, axis=1).max())
            if not length <= longest * room:
                return f"a row of length {length:.4g}; the longest allowed is {longest:.4g}"
        rows = most if counts is None else sum(counts)
        if rows > most:
            return f"{rows} rows declared; a message may have {most}"
        with np.errstate(over="ignore"):
            trace, sides = summary.trace, float(np.linalg.norm(summary.moment, axis=0).sum())
        largest, reach = rows * longest**2, math.sqrt(max(rows * trace, 0.0))
        if not trace <= largest * room:
            return f"a gram of trace {trace:.4g}; {rows} rows of length {longest:.4g} have at most {largest:.4g}"
        if not sides <= reach * room:
            return f"a moment of {sides:.4g}; {rows} rows with this gram have at most {reach:.4g}"
        return None

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return self.bounds.options() | ({} if self._asked is None else {"clients": self._asked})

    def remembered(self) -> Memory:
        """Return the rows of every client."""
        return Memory({"rows": dict(zip(client_names(self._rows), self._rows.values(), strict=True))})

    def restore(self, memory: Memory) -> None:
        """Take over the rows of every client."""
        self._rows = {client: float(rows) for client, rows in memory.values["rows"].items()}


RULES = (BoundedInfluence,)
