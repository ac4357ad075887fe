"""Bounded influence: no message and no client moves the totals by more than a public amount."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from exhume.defence.admission._numbers import forgiven
from exhume.defence.bounds import HOW_TO_MEASURE, Bounds
from exhume.defence.memory import Memory, Saveable, client_names, keep_entries
from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol import AdmissionRule, Batch, Summary, Update
from exhume.protocol.grid import headroom
from exhume.protocol.message import message
from exhume.protocol.rules import Undo

__all__ = ["BoundedInfluence", "seats", "seats_of_sums"]

_NOTHING = np.zeros(3)
"""What a client has that has sent nothing: rows shown, and of sums their trace and the length of their moments."""

_ROUNDING = 1e-9
"""Relative room for the roundoff of honest sums."""


def seats(bounds: Bounds, grid: float) -> int:
    """Return how many clients within these bounds fit into half of what a grid holds exactly.

    The other half is for what the ledger holds at the start.
    """
    step = max(bounds.longest, grid)
    return math.floor(headroom(grid) / 2 / (bounds.client_rows * step**2 * (1.0 + _ROUNDING) ** 4))


def seats_of_sums(bounds: Bounds, gamma: float, d: int) -> int:
    """Return how many clients within these bounds may send sums of d features that nobody can prove positive.

    What `PositiveSemidefinite` forgives as roundoff adds up, over what a client has standing, to a share of its trace
    (`forgiven`). That of all clients together stays below half of the ridge.
    """
    return math.floor(gamma / 2 / (forgiven(bounds.message_rows, d) * bounds.client_rows * bounds.longest**2))


class BoundedInfluence(Saveable, AdmissionRule):
    """Refuses what is longer, or more, than public bounds allow: per row, per message, per client.

    With rows shown, every row is measured and counted; another rule must see to it that a client deletes its own rows.
    From sums alone, n rows no longer than b have a gram of trace at most ``n b^2``, and moment columns whose lengths
    add up to at most ``sqrt(n trace)`` (Cauchy-Schwarz): n is the declared number of rows, or the largest allowed, in a
    message, and ``client_rows`` in what a client has standing. What is declared counts for the message alone: traces
    and lengths are added when a message comes and taken off when it goes, and these nobody can make up. Three numbers
    are kept per client, and the cost of a message does not depend on what came before.

    A message without rows or sums is refused: it would take a seat, and an event of the noise, for nothing.

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
    by_rows
        Whether messages that show their rows are counted by them. Where no rule checks the rows shown, they are not.
    gamma, d
        The ledger's ridge and its number of features. Where sums are taken there is a limit on clients, too
        (`seats_of_sums`): the ledger refuses totals that are not positive definite, which is an answer about
        everybody's.
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
        by_rows: bool = True,
        gamma: float | None = None,
        d: int | None = None,
    ) -> None:
        if longest is None or message_rows is None or client_rows is None:
            raise InputError("bounds", HOW_TO_MEASURE, "none")
        self.bounds = Bounds(longest, message_rows, client_rows)
        if clients is not None and clients < 1:
            raise InputError("clients", "at least 1", clients)
        self._asked, self.clients, self.room, self.by_rows = clients, clients, math.inf, by_rows
        if grid is not None:
            self._seat("grid", "coarse enough for the rows of one client (or tighter bounds)", grid, seats)
            self.room = headroom(grid) / 2
        # On a grid sums are exact; what looks for their eigenvalues rounds all the same.
        if gamma is not None and d is not None and not by_rows:
            allowed = "large enough for the roundoff of one client's sums (or tighter bounds)"
            self._seat("gamma", allowed, gamma, partial(seats_of_sums, d=d))
        self._standing: dict[str, Matrix] = {}

    def _seat(self, name: str, allowed: str, value: float, seats_at: Callable[[Bounds, float], int]) -> None:
        most = seats_at(self.bounds, value)
        if most < 1:
            raise InputError(name, allowed, f"{value:g}")
        if self._asked is not None and self._asked > most:
            raise InputError("clients", f"at most {most} with {name} {value:g}", self._asked)
        self.clients = min(self._asked or most, self.clients or most)

    def check_start(self, total: Summary) -> None:
        """Refuse totals of more than the half of a grid's room that is not the clients'."""
        if not (largest := float(total.diagonal().max())) < self.room:
            raise InputError("ledger", f"totals below {self.room:.4g} at the start on its grid", f"{largest:.4g}")

    def rows(self, client: str) -> float:
        """Return how many rows a client has standing, by weight where it did not show them."""
        return self._weight(self._standing.get(client, _NOTHING))

    def refuse(self, update: Update, client: str) -> str | None:
        """Measure both sides, then what the client would have."""
        return self.refuse_in_round(update, client, ())

    def refuse_in_round(self, update: Update, client: str, passed: Sequence[str]) -> str | None:
        """Count the clients of the same round that are new, too."""
        told = message(update)
        sides = (
            ("add", update.add, told.added, told.added_counts),
            ("delete", update.delete, told.deleted, told.deleted_counts),
        )
        for side, summary, batch, counts in sides:
            if (reason := self._beyond(summary, batch, counts)) is not None:
                return f"{self.name}: {side}: {reason}"
        if self.clients is not None and client not in self._standing:
            new = sum(name not in self._standing for name in passed)
            if len(self._standing) + new >= self.clients:
                return f"{self.name}: there are {self.clients} clients already"
        if self._empty(update):
            return f"{self.name}: a message without rows or sums"
        if self._adds(update) and (reason := self._too_much(self._after(update, client))) is not None:
            return f"{self.name}: after this message '{client}' would have {reason}"
        return None

    def record(self, update: Update, client: str) -> None:
        """Carry on what the client has."""
        self._standing[client] = self._after(update, client)

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Keep what these clients have."""
        return keep_entries(self._standing, clients)

    def _adds(self, update: Update) -> bool:
        """Say whether anything comes: rows count, also where their sums are nothing."""
        return not update.add.is_zero or (self.by_rows and message(update).added is not None)

    def _empty(self, update: Update) -> bool:
        told = message(update)
        shown = any(batch is not None and len(batch.features) for batch in (told.added, told.deleted))
        return update.add.is_zero and update.delete.is_zero and not shown

    def _too_much(self, standing: Matrix) -> str | None:
        most, longest = self.bounds.client_rows, self.bounds.longest
        if self._weight(standing) > most * (1.0 + _ROUNDING):
            return f"more than {most} rows"
        # Traces that came and went leave roundoff: a share of the largest one has room.
        reach = math.sqrt(most * (standing[1] + _ROUNDING * most * longest**2))
        if standing[2] > reach * (1.0 + _ROUNDING):
            return f"moments of {standing[2]:.4g}; {most} rows with these grams have at most {reach:.4g}"
        return None

    def _weight(self, standing: Matrix) -> float:
        return float(standing[0] + standing[1] / self.bounds.longest**2)

    def _after(self, update: Update, client: str) -> Matrix:
        told = message(update)
        come, gone = self._charge(update.add, told.added), self._charge(update.delete, told.deleted)
        return np.maximum(self._standing.get(client, _NOTHING) + come - gone, 0.0)

    def _charge(self, summary: Summary, batch: Batch | None) -> Matrix:
        """Return the rows shown, or else the trace and the length of the moments."""
        if batch is not None and self.by_rows:
            return np.array([float(len(batch.features)), 0.0, 0.0])
        return np.array([0.0, summary.trace, _sides(summary)])

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
            trace, sides = summary.trace, _sides(summary)
        largest, reach = rows * longest**2, math.sqrt(max(rows * trace, 0.0))
        if not trace <= largest * room:
            return f"a gram of trace {trace:.4g}; {rows} rows of length {longest:.4g} have at most {largest:.4g}"
        if not sides <= reach * room:
            return f"a moment of {sides:.4g}; {rows} rows with this gram have at most {reach:.4g}"
        return None

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        clients = {} if self._asked is None else {"clients": self._asked}
        return self.bounds.options() | clients | ({} if self.by_rows else {"by_rows": False})

    def remembered(self) -> Memory:
        """Return what every client has."""
        standing = {name: self._standing[name].tolist() for name in client_names(self._standing)}
        return Memory({"rows": standing})

    def restore(self, memory: Memory) -> None:
        """Take over what every client has; earlier versions kept a single number, rows or by weight."""
        scale = np.array([1.0, 0.0, 0.0]) if self.by_rows else np.array([0.0, self.bounds.longest**2, 0.0])
        self._standing = {
            client: scale * kept if isinstance(kept, float | int) else np.array(kept, dtype=np.float64)
            for client, kept in memory.values["rows"].items()
        }


def _sides(summary: Summary) -> float:
    """Return the lengths of the moment's columns, added up."""
    return float(np.linalg.norm(summary.moment, axis=0).sum())


RULES = (BoundedInfluence,)
