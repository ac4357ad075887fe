"""The identification accountant: how far each client is from the rank that Theorem 1 asks for.

Which heads count. A broadcast is seen by all, but a head gives a client an equation ``A X = Z`` only if the client
knows every change since its baseline head. So a client's stack starts anew at each change that somebody else made, and
a coalition's at each change that none of its members made (`exhume.defence._runs`). A client that alone made all the
data in the ledger learns nothing that it does not know, and is not held back.

What is assumed. Names are people: one person under more names than ``coalition`` escapes. A change of others makes an
unknown state, however small it is: an attacker who pieces together stacks from both sides of a small change gets
equations that are wrong by that change only. ``conservative=True`` counts a client's columns across others' changes
too. Rank is counted on the ridge solutions behind the heads: what rounding or noise blur is in the predicted error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from exhume.defence._basis import Basis, Plan
from exhume.defence._matrix import Matrix
from exhume.defence._runs import Run, Seen, extend
from exhume.defence._state import pack, unpack
from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Accountant, Exposure, Occasion, Undo, keep

__all__ = ["ACTIONS", "Identification", "IdentificationAccountant"]

ACTIONS = ("withhold", "coarsen", "report")


@dataclass(frozen=True)
class Identification(Exposure):
    """How much of the state a client, alone or in a coalition, could have identified."""

    rank: int
    """The highest rank of any stack that it could have built."""
    needed: int
    """The rank at which the state is identified: d."""
    current: int
    """The rank of its stack of the present state."""
    responses: int
    """The responses in that stack."""
    condition: float
    """Condition number of that stack within its span."""
    state_error: float
    """Bound on the relative error of the present state, were it identified now by solving the stack exactly.

    Infinite below full rank, and where rounding and noise are as large as the weakest direction of the stack.
    """

    def deletion_error(self, share: float) -> float:
        """Return the bound on the relative error of a deleted gram of size ``share`` of the state, by differencing.

        Two states with this error differ by the block: ``(|E_pre| + |E_post|) / |S_del|``.
        """
        if not share > 0.0:
            raise InputError("share", "above 0", share)
        return 2.0 * self.state_error / share


@dataclass(frozen=True)
class _Outlook:
    """What an occasion would do to the runs if its head went out."""

    occasion: Occasion
    runs: tuple[Run, ...]
    plans: tuple[Plan | None, ...]
    lasting: Plan | None
    removed: Matrix | None = None


class IdentificationAccountant(Accountant):
    """Keeps the rank of the stack that every client could have built, and holds back the head that would fill it.

    Parameters
    ----------
    margin
        How many dimensions must stay unknown: no head goes out that would bring a stack above rank d - margin.
    action
        ``"withhold"`` the head; ``"coarsen"`` it, that is, leave out its part in the new directions; or only
        ``"report"``.
    coalition
        How many clients may work together.
    conservative
        Whether a client's columns count across the changes of others too.
    """

    name = "identification"

    def __init__(
        self, margin: int, *, action: str = "withhold", coalition: int = 1, conservative: bool = False
    ) -> None:
        if margin < 1:
            raise InputError("margin", "at least 1", margin)
        if action not in ACTIONS:
            raise InputError("action", ", ".join(ACTIONS), f"'{action}'")
        if coalition < 1:
            raise InputError("coalition", "at least 1", coalition)
        self.margin, self.action = int(margin), action
        self.coalition, self.conservative = int(coalition), bool(conservative)
        self._runs: tuple[Run, ...] = ()
        self._lasting: dict[str, Basis] = {}
        self._last: Seen | None = None
        self._fresh = False
        self._hidden: bool | None = None
        self._contributors: set[str] = set()
        self._peaks: dict[str, list[int]] = {}
        self._highest = [0] * self.coalition
        self._outlook: _Outlook | None = None

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in ("margin", "action", "coalition", "conservative")}

    def check(self, ledger: Ledger) -> None:
        """Refuse a margin that leaves no dimension to show."""
        if self.margin >= ledger.d:
            raise InputError("margin", f"below d = {ledger.d}", self.margin)

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

    def exposure(self, client: str, *, coalition: int = 1) -> Identification:
        """Return what a client could know, alone or with up to ``coalition - 1`` helpers.

        The value is the highest rank so far over d: what was identified once stays known.
        """
        if not 1 <= coalition <= self.coalition:
            raise InputError("coalition", f"from 1 to the accountant's {self.coalition}", coalition)
        d = self._last.signal.shape[0] if self._last is not None else 1
        # Helpers share what they know: with one helper fewer than the coalition has, the client need not be an author.
        known = [r for size, r in enumerate(self._runs[:coalition], 1) if size < coalition or client in r.members]
        run = known[-1] if known else None
        rank = max([*self._peaks.get(client, [0])[:coalition], *self._highest[: coalition - 1]])
        if self.conservative and client in self._lasting:
            rank = max(rank, self._lasting[client].rank)
        current = run.basis.rank if run is not None else 0
        error = run.state_error() if run is not None else float("inf")
        return Identification(
            value=rank / d,
            meaning=_words(client, coalition, rank, d, error if current == d else None),
            rank=rank,
            needed=d,
            current=current,
            responses=run.responses if run is not None else 0,
            condition=run.condition() if run is not None else 1.0,
            state_error=error,
        )

    def _extended(self, authors: tuple[str, ...], d: int) -> tuple[Run, ...]:
        runs, fresh = self._runs, self._fresh
        for author in authors:
            runs = extend(runs, author, self._last if fresh else None, d, self.coalition)
            fresh = False
        return runs

    def _look(self, exact: Head, occasion: Occasion) -> _Outlook:
        if self._outlook is None or self._outlook.occasion is not occasion:
            runs = self._extended(_authors(occasion), exact.d)
            plans = tuple(run.plan(exact.weights) for run in runs)
            self._outlook = _Outlook(occasion, runs, plans, self._plan_lasting(runs, exact.weights))
        return self._outlook

    def _plan_lasting(self, runs: tuple[Run, ...], signal: Matrix) -> Plan | None:
        if not (self.conservative and runs) or runs[0].baseline is None:
            return None
        lasting = self._lasting.setdefault(runs[0].members[0], Basis(len(signal)))
        return lasting.plan(signal - runs[0].baseline.signal)

    def _culprit(self, outlook: _Outlook) -> tuple[Basis, Matrix] | None:
        """Return the smallest stack that the head would fill too far, with its baseline."""
        contributors = self._contributors | set(_authors(outlook.occasion))
        hidden = self._had_data(outlook.occasion)
        found = [
            (run.basis, run.baseline.signal, plan, run.members)
            for run, plan in zip(outlook.runs, outlook.plans, strict=True)
            if run.baseline is not None and plan is not None
        ]
        if outlook.lasting is not None and outlook.runs[0].baseline is not None:
            author = outlook.runs[0].members
            found.append((self._lasting[author[0]], outlook.runs[0].baseline.signal, outlook.lasting, author))
        for basis, baseline, plan, members in found:
            alone = not hidden and contributors <= set(members)
            if not alone and plan.gain and basis.rank + plan.gain > basis.d - self.margin:
                return basis, baseline
        return None

    def _hear(self, released: Head, exact: Head, outlook: _Outlook) -> None:
        signal, plans, lasting = exact.weights, outlook.plans, outlook.lasting
        if outlook.removed is not None:
            signal = signal - outlook.removed
            plans = tuple(run.plan(signal) for run in self._runs)
            lasting = self._plan_lasting(self._runs, signal)
        if lasting is not None:
            self._lasting[self._runs[0].members[0]].add(lasting)
        seen = Seen.of(signal, released.weights, outlook.occasion.ledger)
        self._runs = tuple(run.heard(seen, plan) for run, plan in zip(self._runs, plans, strict=True))
        self._last = seen
        for size, run in enumerate(self._runs):
            for peaks in (self._highest, *(self._peaks.setdefault(m, [0] * self.coalition) for m in run.members)):
                peaks[size] = max(peaks[size], run.basis.rank)

    def _had_data(self, occasion: Occasion) -> bool:
        """Say whether the ledger held anything before the first change that the accountant saw."""
        return self._hidden if self._hidden is not None else not _made_by(occasion.ledger, occasion)

    def save(self) -> bytes:
        """Write everything that the accountant knows."""
        arrays: dict[str, Matrix] = {}
        if self._last is not None:
            arrays |= _kept("last", self._last)
        for i, run in enumerate(self._runs):
            arrays |= {f"run{i}.vectors": run.basis.vectors, f"run{i}.coordinates": run.basis.coordinates()}
            if run.baseline is not None:
                arrays |= _kept(f"run{i}", run.baseline)
        clients = sorted(self._lasting)
        for i, client in enumerate(clients):
            basis = self._lasting[client]
            arrays |= {f"lasting{i}.vectors": basis.vectors, f"lasting{i}.coordinates": basis.coordinates()}
        values = {
            "runs": [[list(run.members), run.responses, run.blur, run.misfit] for run in self._runs],
            "lasting": clients,
            "fresh": self._fresh,
            "hidden": self._hidden,
            "contributors": sorted(self._contributors),
            "peaks": self._peaks,
            "highest": self._highest,
        }
        return pack(self.name, self.configuration(), values, arrays)

    def load(self, data: bytes) -> None:
        """Take over a saved accountant; one of another configuration is refused by name."""
        saved = unpack(data, self.name, self.configuration())
        values, arrays = saved.values, saved.arrays

        def seen(prefix: str) -> Seen | None:
            if f"{prefix}.signal" not in arrays:
                return None
            signal, error, residual = (arrays[f"{prefix}.{part}"] for part in ("signal", "error", "residual"))
            return Seen(signal, error, residual, float(arrays[f"{prefix}.size"][0]))

        def basis(prefix: str) -> Basis:
            return Basis.restored(arrays[f"{prefix}.vectors"], arrays[f"{prefix}.coordinates"])

        self._last = seen("last")
        self._runs = tuple(
            Run(tuple(members), basis(f"run{i}"), seen(f"run{i}"), responses, blur, misfit)
            for i, (members, responses, blur, misfit) in enumerate(values["runs"])
        )
        self._lasting = {client: basis(f"lasting{i}") for i, client in enumerate(values["lasting"])}
        self._fresh, self._hidden = bool(values["fresh"]), values["hidden"]
        self._contributors = set(values["contributors"])
        self._peaks = {str(k): [int(n) for n in v] for k, v in values["peaks"].items()}
        self._highest = [int(n) for n in values["highest"]]
        self._outlook = None

    def __repr__(self) -> str:
        return f"IdentificationAccountant({', '.join(f'{k}={v!r}' for k, v in self.configuration().items())})"


def _kept(prefix: str, seen: Seen) -> dict[str, Matrix]:
    found = {"signal": seen.signal, "error": seen.error, "residual": seen.residual, "size": np.array([seen.size])}
    return {f"{prefix}.{name}": array for name, array in found.items()}


def _authors(occasion: Occasion) -> tuple[str, ...]:
    """Return who changed the state; a message without effect changes nobody's knowledge."""
    pairs = zip(occasion.clients, occasion.updates, strict=True)
    return tuple(dict.fromkeys(client for client, update in pairs if not update.net.is_zero))


def _made_by(ledger: Ledger, occasion: Occasion) -> bool:
    """Say whether a ledger holds nothing but the occasion's own updates."""
    total = ledger.summary
    made_gram = sum((u.net.gram for u in occasion.updates), np.zeros((ledger.d, ledger.d)))
    made_moment = sum((u.net.moment for u in occasion.updates), np.zeros((ledger.d, ledger.c)))
    return np.allclose(total.gram, made_gram) and np.allclose(total.moment, made_moment)


def _words(client: str, coalition: int, rank: int, d: int, error: float | None) -> str:
    """Say it in words; the error is None where the present stack is not complete."""
    who = f"'{client}'" if coalition == 1 else f"'{client}' with up to {coalition - 1} more"
    if rank == 0:
        return f"{who} has seen no response to changes that it knows in full"
    if rank < d:
        return f"{who} has seen {rank} of {d} dimensions of one state; {d - rank} are missing, so it is not identified"
    known = f"{who} has seen all {d} dimensions of one state"
    if error is None:
        return f"{known}, which is therefore identifiable; it has not for the present one"
    if error < 1.0:
        return f"{known} and can identify the present one to a relative error of at most {error:.2g}"
    return f"{known}, but rounding or noise in the heads leaves no bound below 1 on its error ({error:.2g})"
