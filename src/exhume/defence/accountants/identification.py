"""The identification accountant: how far each client is from the rank that Theorem 1 asks for.

Which heads count. A broadcast is seen by all, but a head gives a client an equation ``A X = Z`` only if the client
knows every change since its baseline head. So a client's stack starts anew at each change that somebody else made, and
the stack of colluders at each change that none of them made (`_runs`). A client that alone made all the
data in the ledger learns nothing that it does not know, and is not held back.

What is assumed. Names are people: one person under more names than ``colluders`` escapes. A change of others makes an
unknown state, however small it is: an attacker who pieces together stacks from both sides of a small change gets
equations that are wrong by that change only. ``conservative=True`` counts a client's columns across others' changes
too. Rank is counted on the ridge solutions behind the heads: what rounding or noise blur is in the predicted error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from exhume.defence.accountants._basis import Basis, Extension
from exhume.defence.accountants._exposure import Identification, in_words
from exhume.defence.accountants._reach import Reach
from exhume.defence.accountants._runs import QuietRun, SeenHead, extend
from exhume.defence.memory import Memory, Saveable, client_names
from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Accountant, Occasion, Undo, keep
from exhume.protocol.summary import Summary

__all__ = ["ACTIONS", "IdentificationAccountant"]

ACTIONS = ("withhold", "coarsen", "report")

Peak = tuple[int, int]
"""A rank, and the rank that would have identified the state."""

NOTHING: Peak = (0, 1)


@dataclass(frozen=True)
class _Outlook:
    """What an occasion would do to the runs if its head went out."""

    occasion: Occasion
    runs: tuple[QuietRun, ...]
    extensions: tuple[Extension | None, ...]
    lasting: Extension | None
    reach: Reach
    removed: Matrix | None = None


class IdentificationAccountant(Saveable, Accountant):
    """Keeps the rank of the stack that every client could have built, and holds back the head that would fill it.

    Parameters
    ----------
    margin
        How many dimensions must stay unknown: no head goes out that would bring a stack nearer than this to the rank
        that identifies the state: d, or the number of coordinates in which the client's own rows have weight.
    action
        ``"withhold"`` the head; ``"coarsen"`` it, that is, leave out its part in the new directions; or only
        ``"report"``.
    colluders
        How many clients may work together.
    conservative
        Whether a client's columns count across the changes of others too.
    """

    name = "identification"
    about = "no head that brings a client near the rank that identifies the state"
    example: ClassVar[Mapping[str, Any]] = {"margin": 1}
    former_options: ClassVar[Mapping[str, str]] = {"coalition": "colluders"}

    def __init__(
        self, margin: int, *, action: str = "withhold", colluders: int = 1, conservative: bool = False
    ) -> None:
        if margin < 1:
            raise InputError("margin", "at least 1", margin)
        if action not in ACTIONS:
            raise InputError("action", ", ".join(ACTIONS), f"'{action}'")
        if colluders < 1:
            raise InputError("colluders", "at least 1", colluders)
        self.margin, self.action = int(margin), action
        self.colluders, self.conservative = int(colluders), bool(conservative)
        self._runs: tuple[QuietRun, ...] = ()
        self._lasting: dict[str, Basis] = {}
        self._last: SeenHead | None = None
        self._fresh = False
        self._hidden: bool | None = None
        self._contributors: set[str] = set()
        self._reach = Reach()
        self._peaks: dict[str, list[Peak]] = {}
        self._highest: list[Peak] = [NOTHING] * self.colluders
        self._outlook: _Outlook | None = None

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in ("margin", "action", "colluders", "conservative")}

    def check_size(self, d: int, c: int) -> None:
        """Refuse a ledger that has no more dimensions than must stay unknown."""
        if self.margin >= d:
            raise InputError("margin", f"below d = {d}", self.margin)

    def review(self, released: Head, exact: Head, occasion: Occasion) -> Head | None:
        """Pass the head, withhold it, or leave out its part in directions that nobody may see yet."""
        outlook = self._look(exact, occasion)
        culprit = self._culprit(outlook)
        if culprit is None or self.action == "report":
            return released
        if self.action == "withhold":
            return None
        basis, baseline = culprit
        removed = basis.split(exact.weights - baseline)[1]
        self._outlook = replace(outlook, removed=removed)
        return replace(released, weights=released.weights - removed)

    def observe(self, released: Head | None, exact: Head, occasion: Occasion) -> None:
        """Take up an accepted change and the head after it."""
        outlook = self._look(exact, occasion) if released is not None else None
        authors = _authors(occasion)
        self._reach = outlook.reach if outlook is not None else self._reach.after(occasion)
        self._runs = outlook.runs if outlook is not None else self._extended(authors, exact.d)
        self._hidden = self._had_data(occasion)
        self._contributors.update(authors)
        self._fresh = released is not None or (self._fresh and not authors)
        self._outlook = None
        if released is not None and outlook is not None:
            self._hear(released, exact, outlook)

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Keep the tables, and mark how far each stack goes: a step only ever adds to stacks."""
        attributes = keep(
            self,
            _lasting=dict(self._lasting),
            _contributors=set(self._contributors),
            _peaks={client: list(peaks) for client, peaks in self._peaks.items()},
            _highest=list(self._highest),
        )
        marks = [basis.mark() for basis in (*(run.basis for run in self._runs), *self._lasting.values())]

        def undo() -> None:
            for one in (*marks, attributes):
                one()

        return undo

    def exposure(self, client: str, *, colluders: int = 1) -> Identification:
        """Return what a client could know, alone or with up to ``colluders - 1`` helpers.

        The value is the highest share so far of the rank that identifies the state: what was identified once stays
        known.
        """
        if not 1 <= colluders <= self.colluders:
            raise InputError("colluders", f"from 1 to the accountant's {self.colluders}", colluders)
        d = self._last.signal.shape[0] if self._last is not None else 1
        # Helpers share what they know: with one helper fewer than there may be, the client need not be an author.
        known = [r for size, r in enumerate(self._runs[:colluders], 1) if size < colluders or client in r.members]
        run = known[-1] if known else None
        peaks = [*self._peaks.get(client, [NOTHING])[:colluders], *self._highest[: colluders - 1]]
        if self.conservative and client in self._lasting:
            lasting = self._lasting[client].rank
            peaks.append((lasting, self._reach.needed((client,), lasting, d)))
        live = self._reach.of(run.members if run is not None else (client,), d)
        rank, needed = max(peaks, key=_share)
        if rank == 0:
            needed = self._reach.live(d)
        current = run.basis.rank if run is not None else 0
        error = run.state_error(live) if run is not None else float("inf")
        complete = run is not None and current == len(live)
        return Identification(
            value=rank / max(needed, 1),
            meaning=in_words(client, colluders, rank, needed, self._reach.live(d), error if complete else None),
            rank=rank,
            needed=needed,
            current=current,
            responses=run.responses if run is not None else 0,
            condition=run.condition() if run is not None else 1.0,
            state_error=error,
        )

    def _extended(self, authors: tuple[str, ...], d: int) -> tuple[QuietRun, ...]:
        runs, fresh = self._runs, self._fresh
        for author in authors:
            runs = extend(runs, author, self._last if fresh else None, d, self.colluders)
            fresh = False
        return runs

    def _look(self, exact: Head, occasion: Occasion) -> _Outlook:
        if self._outlook is None or self._outlook.occasion is not occasion:
            runs = self._extended(_authors(occasion), exact.d)
            extensions = tuple(run.extension(exact.weights) for run in runs)
            lasting = self._extend_lasting(runs, exact.weights)
            self._outlook = _Outlook(occasion, runs, extensions, lasting, self._reach.after(occasion))
        return self._outlook

    def _extend_lasting(self, runs: tuple[QuietRun, ...], signal: Matrix) -> Extension | None:
        if not (self.conservative and runs) or runs[0].baseline is None:
            return None
        lasting = self._lasting.setdefault(runs[0].members[0], Basis(len(signal)))
        return lasting.extension(signal - runs[0].baseline.signal)

    def _culprit(self, outlook: _Outlook) -> tuple[Basis, Matrix] | None:
        """Return the smallest stack that the head would fill too far, with its baseline."""
        contributors = self._contributors | set(_authors(outlook.occasion))
        hidden = self._had_data(outlook.occasion)
        found = [
            (run.basis, run.baseline.signal, extension, run.members)
            for run, extension in zip(outlook.runs, outlook.extensions, strict=True)
            if run.baseline is not None and extension is not None
        ]
        if outlook.lasting is not None and outlook.runs[0].baseline is not None:
            author = outlook.runs[0].members
            found.append((self._lasting[author[0]], outlook.runs[0].baseline.signal, outlook.lasting, author))
        for basis, baseline, extension, members in found:
            alone = not hidden and contributors <= set(members)
            most = len(outlook.reach.of(members, basis.d)) - self.margin
            if not alone and extension.gain and basis.rank + extension.gain > most:
                return basis, baseline
        return None

    def _hear(self, released: Head, exact: Head, outlook: _Outlook) -> None:
        signal, extensions, lasting = exact.weights, outlook.extensions, outlook.lasting
        if outlook.removed is not None:
            signal = signal - outlook.removed
            extensions = tuple(run.extension(signal) for run in self._runs)
            lasting = self._extend_lasting(self._runs, signal)
        if lasting is not None:
            self._lasting[self._runs[0].members[0]].add(lasting)
        seen = SeenHead.of(signal, released.weights, outlook.occasion.ledger)
        self._runs = tuple(run.heard(seen, extension) for run, extension in zip(self._runs, extensions, strict=True))
        self._last = seen
        for size, run in enumerate(self._runs):
            peak = run.basis.rank, self._reach.needed(run.members, run.basis.rank, exact.d)
            for peaks in (self._highest, *(self._peaks.setdefault(m, [NOTHING] * self.colluders) for m in run.members)):
                peaks[size] = max(peaks[size], peak, key=_share)

    def _had_data(self, occasion: Occasion) -> bool:
        """Say whether the ledger held anything before the first change that the accountant saw."""
        return self._hidden if self._hidden is not None else not _made_by(occasion.ledger, occasion)

    def remembered(self) -> Memory:
        """Return everything that the accountant knows."""
        clients = sorted(client_names(self._lasting))
        members = [client_names(run.members) for run in self._runs]
        arrays: dict[str, Matrix] = {} if self._last is None else self._last.arrays("last")
        for i, run in enumerate(self._runs):
            arrays |= run.basis.arrays(f"run{i}")
            if run.baseline is not None:
                arrays |= run.baseline.arrays(f"run{i}")
        for i, client in enumerate(clients):
            arrays |= self._lasting[client].arrays(f"lasting{i}")
        arrays |= self._reach.arrays()
        values = {
            "runs": [[who, r.responses, r.blur, r.misfit] for who, r in zip(members, self._runs, strict=True)],
            "lasting": clients,
            "fresh": self._fresh,
            "hidden": self._hidden,
            "contributors": sorted(client_names(self._contributors)),
            "peaks": self._peaks,
            "highest": self._highest,
            **self._reach.values(),
        }
        return Memory(values, arrays)

    def restore(self, memory: Memory) -> None:
        """Take over everything that a saved accountant knew."""
        values, arrays = memory.values, memory.arrays
        self._last = SeenHead.restored("last", arrays)
        self._runs = tuple(
            QuietRun(
                tuple(members),
                Basis.restored(f"run{i}", arrays),
                SeenHead.restored(f"run{i}", arrays),
                responses,
                blur,
                misfit,
            )
            for i, (members, responses, blur, misfit) in enumerate(values["runs"])
        )
        self._lasting = {client: Basis.restored(f"lasting{i}", arrays) for i, client in enumerate(values["lasting"])}
        self._fresh, self._hidden = bool(values["fresh"]), values["hidden"]
        self._contributors = set(values["contributors"])
        self._reach = Reach.restored(values, arrays)
        d = 1 if self._last is None else len(self._last.signal)
        self._peaks = {client: [_peak(n, d) for n in peaks] for client, peaks in values["peaks"].items()}
        self._highest = [_peak(n, d) for n in values["highest"]]
        self._outlook = None


def _share(peak: Peak) -> tuple[float, int]:
    return peak[0] / max(peak[1], 1), peak[0]


def _peak(saved: Any, d: int) -> Peak:
    """Return a saved peak; an earlier version saved the rank alone, out of d."""
    rank, needed = (saved, d) if isinstance(saved, int) else saved
    return int(rank), int(needed)


def _authors(occasion: Occasion) -> tuple[str, ...]:
    """Return who changed the state; a message without effect changes nobody's knowledge."""
    pairs = zip(occasion.clients, occasion.updates, strict=True)
    return tuple(dict.fromkeys(client for client, update in pairs if not update.net.is_zero))


def _made_by(ledger: Ledger, occasion: Occasion) -> bool:
    """Say whether a ledger holds nothing but the occasion's own updates."""
    total = ledger.summary
    made = sum((u.net for u in occasion.updates), Summary.zeros(ledger.d, ledger.c))
    bands = (slice(i, i + 256) for i in range(0, ledger.d, 256))  # factored updates are not written out whole
    return np.allclose(total.moment, made.moment) and all(np.allclose(total.gram[b], made.band(b)) for b in bands)


ACCOUNTANTS = (IdentificationAccountant,)
