"""The party that keeps the totals and broadcasts heads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from exhume.errors import InputError, RefusedError, SingularStateError
from exhume.protocol._checks import as_name
from exhume.protocol.head import Head
from exhume.protocol.interrupts import HeldBack
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Accountant, AdmissionRule, Counts, Exposure, Heads, Occasion, ReleaseRule
from exhume.protocol.summary import Update

__all__ = ["Receipt", "Server"]


@dataclass(frozen=True)
class Receipt:
    """The server's answer to one message."""

    client: str
    accepted: bool
    reason: str | None
    """Why it was refused; None where it was accepted."""
    head: Head | None
    """The head that was broadcast for it; None where the message was refused or the release withheld."""
    number: int
    """How many logical submissions the server had accepted by then."""
    rule: str | None = None
    """The name of the rule that refused it, ``"ledger"`` where the totals cannot take it; None if it was accepted."""


LEDGER = "ledger"
"""What a receipt names as the rule where no head would exist after the update, or the ledger cannot hold it."""


class Server:
    """A ledger behind admission rules and a release rule.

    A released head is a broadcast: every client sees it. The paper's server has no admission rule and releases
    `Heads("float64")` or `Heads("float32")`.

    Threads may share a server. Submissions are served one after another; `released`, `counts` and, once a head is out,
    `head` return the latest finished step without waiting for one that is under way. `paused` holds submissions off,
    for whoever reads or saves the whole server.

    A step counts whole or not at all. If anything in it raises (a rule, the accountant, an interrupt), the ledger is
    bitwise as before, and counts, head and the memories of all rules are as before. Ctrl-C and SIGTERM wait for the end
    of a computation: they take the step back, or come right after it where it counts already (`counts` tells). A
    message that cannot be applied is no error: its sender gets a receipt that says so, and the rest of its round is
    served.

    Parameters
    ----------
    ledger
        The retained totals; the server owns it from here on.
    admission
        Rules asked in order; the first to object refuses the update.
    release
        What goes out after each accepted logical submission.
    accountant
        Keeps what each client could know, for `exposure`, and may hold a release back.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        admission: Sequence[AdmissionRule] = (),
        release: ReleaseRule | None = None,
        accountant: Accountant | None = None,
    ) -> None:
        self._ledger = ledger
        self._admission = tuple(admission)
        self._release = release if release is not None else Heads("float64")
        self._accountant = accountant
        self._counts = Counts()
        self._head: Head | None = None
        self._lock = threading.RLock()
        self._solves = accountant is not None or not self._release.makes_heads
        self._proved = not self._solves and any(rule.keeps_positive for rule in self._admission)
        for part in self._parts():
            part.check_size(ledger.d, ledger.c)
            part.checkpoint(())  # a rule that cannot be put back is found now, not in the middle of a step

    def resume(self, counts: Counts, head: Head | None) -> None:
        """Go on where a server that stopped was: its counts, and the head that it last released."""
        if head is not None and (head.d, head.c) != self.shape:
            raise InputError("head", f"of d, c = {self.shape}, as the ledger", f"{head.d}, {head.c}")
        with self._lock:
            self._counts, self._head = counts, head

    @contextmanager
    def paused(self) -> Iterator[Server]:
        """Hold submissions of other threads off while the block runs, so that what it reads belongs together."""
        with self._lock:
            yield self

    @property
    def admission(self) -> tuple[AdmissionRule, ...]:
        """What the server refuses by."""
        return self._admission

    @property
    def release(self) -> ReleaseRule:
        """What goes out after an accepted change."""
        return self._release

    @property
    def accountant(self) -> Accountant | None:
        """Who keeps what clients could know, if anybody does."""
        return self._accountant

    @property
    def released(self) -> Head | None:
        """The head last broadcast; None where there is none yet. Unlike `head`, asking releases nothing."""
        return self._head

    @property
    def ledger(self) -> Ledger:
        """The hidden totals: for the operator and the evaluator, never for a client."""
        return self._ledger

    @property
    def counts(self) -> Counts:
        """Submissions, messages, pairs, broadcasts and refusals so far."""
        return self._counts

    @property
    def grid(self) -> float | None:
        """The public grid step of a bit-exact ledger, which clients snap their features to."""
        return self._ledger.grid

    @property
    def shape(self) -> tuple[int, int]:
        """Feature dimensions and classes (d, c), which are public."""
        return self._ledger.d, self._ledger.c

    def head(self) -> Head:
        """Return the head last broadcast; the first call on a fresh server broadcasts the baseline."""
        if self._head is None:
            with self._lock, self._whole_step(()):
                if self._head is None:
                    self._broadcast((), (), self._counts)
        head = self._head
        if head is None:
            raise RefusedError("no head has been released yet")
        return head

    def submit(self, update: Update, client: str) -> Receipt:
        """Take one client's update: admission, ledger, release."""
        return self.submit_round([(client, update)])[0]

    def submit_round(self, messages: Iterable[tuple[str, Update]]) -> list[Receipt]:
        """Take one round: the messages of K clients, summed, applied as one logical submission, one broadcast.

        Refused messages are left out of the sum; if none is left, nothing changes and nothing is broadcast. Messages
        that the ledger cannot take (another size, off the grid, no positive definite state after it) are refused too,
        by the "rule" ``"ledger"``: where all do not fit together, as `Ledger.apply_round` finds them.
        """
        pending = [(as_name(client), update) for client, update in messages]
        if not pending:
            raise InputError("messages", "at least one (client, update) pair", "none")
        names = {client for client, _ in pending}
        if len(names) < len(pending):
            # Rules judge a message by what was recorded before the round: a second one would slip past them.
            raise InputError("messages", "at most one per client in a round", f"{len(pending)} of {len(names)} clients")
        with self._lock:
            refusals = self._refusals(pending)
            head = self._step(pending, refusals)
            number = self._counts.submissions
        return [
            Receipt(client, True, None, head, number)
            if refusal is None
            else Receipt(client, False, refusal.reason, None, number, refusal.rule)
            for (client, _), refusal in zip(pending, refusals, strict=True)
        ]

    def exposure(self, client: str) -> Exposure:
        """Return what a client could know of the hidden state by now; needs an accountant."""
        if self._accountant is None:
            raise InputError("accountant", "given to the server (or use exhume.hardened) to ask for exposure", "none")
        with self._lock:
            return self._accountant.exposure(client)

    def as_target(self, client: str) -> ServerTarget:
        """Return this server as ``client`` sees it."""
        return ServerTarget(self, client)

    def _parts(self) -> tuple[AdmissionRule | ReleaseRule | Accountant, ...]:
        accountant = () if self._accountant is None else (self._accountant,)
        return (*self._admission, self._release, *accountant)

    @contextmanager
    def _whole_step(self, clients: tuple[str, ...]) -> Iterator[None]:
        """Take everything back that the block did, if it does not end well."""
        counts, head = self._counts, self._head
        with HeldBack() as signals:
            with ExitStack() as undo:
                undo.callback(self.resume, counts, head)
                undo.callback(self._ledger.checkpoint())
                for part in self._parts():
                    undo.callback(part.checkpoint(clients))
                yield
                signals.let_through()
                undo.pop_all()
            for part in self._parts():
                part.settle()

    def _refusals(self, pending: Sequence[tuple[str, Update]]) -> list[RefusedError | None]:
        found: list[RefusedError | None] = []
        passed: list[str] = []
        for client, update in pending:
            found.append(self._refusal(client, update, passed))
            if found[-1] is None:
                passed.append(client)
        return found

    def _refusal(self, client: str, update: Update, passed: Sequence[str]) -> RefusedError | None:
        if (update.d, update.c) != self.shape:
            d, c = self.shape
            return RefusedError(f"{LEDGER}: update must be of d = {d}, c = {c}", LEDGER)
        for rule in self._admission:
            if (reason := rule.refuse_in_round(update, client, passed)) is not None:
                return RefusedError(reason, rule.name or type(rule).__name__)
        return None

    def _step(self, pending: Sequence[tuple[str, Update]], refusals: list[RefusedError | None]) -> Head | None:
        """Take the messages that nobody refused; those that the ledger cannot take join the refusals."""
        wanted = [i for i, refusal in enumerate(refusals) if refusal is None]
        left_out: list[tuple[int, InputError]] = []
        head = None
        try:
            with self._whole_step(tuple(pending[i][0] for i in wanted)):
                moves = [self._moves(*pending[i]) for i in wanted]
                # The totals to start from are nobody's proof: they have a factor before the first step counts.
                proved = self._proved and self._ledger.factorisations > 0
                errors = self._ledger.apply_round(moves, proved=proved) if wanted else []
                left_out = [(i, error) for i, error in zip(wanted, errors, strict=True) if error is not None]
                done = list(zip(wanted, moves, errors, strict=True))
                taken = [(*pending[i], move) for i, move, error in done if error is None]
                counts = replace(self._counts, refused=self._counts.refused + len(pending) - len(taken))
                if taken:
                    head = self._take(taken, counts)
                else:
                    self._counts = counts
        except _NoHeadError as overflow:
            left_out = [(i, overflow) for i in wanted]
            self._counts = replace(self._counts, refused=self._counts.refused + len(pending))
        for i, error in left_out:
            # The whole text would tell what the totals are; what is allowed is public.
            refusals[i] = RefusedError(f"{LEDGER}: {error.field} must be {error.allowed}", LEDGER)
        return head

    def _moves(self, client: str, update: Update) -> Update:
        """Return what the ledger takes of a message that nobody refused."""
        for rule in self._admission:
            update = rule.taken(update, client)
        return update

    def _take(self, messages: Sequence[tuple[str, Update, Update]], counts: Counts) -> Head | None:
        """Count, record and broadcast messages: who sent it, as it came, and what of it is in the ledger."""
        updates = tuple(moved for _, _, moved in messages)
        for client, update, _ in messages:
            for rule in self._admission:
                rule.record(update, client)
        counts = replace(
            counts,
            submissions=counts.submissions + 1,
            messages=counts.messages + len(updates),
            pairs=counts.pairs + sum(update.pairs for _, update, _ in messages),
        )
        return self._broadcast(tuple(client for client, _, _ in messages), updates, counts)

    def _broadcast(self, clients: tuple[str, ...], updates: tuple[Update, ...], counts: Counts) -> Head | None:
        """Ask who decides on a release, and publish the step: the last thing that a step does."""
        weights = self._ledger.head() if self._solves else np.full(self.shape, np.nan)
        if self._solves and not np.isfinite(weights).all():
            raise _NoHeadError("update", "such that the head stays finite", "an overflow in the solve")
        fresh = Head(weights, serial=counts.broadcasts + 1)
        occasion = Occasion(self._ledger, clients, updates, counts)
        released = self._release.release(fresh, occasion)
        if self._accountant is not None:
            if released is not None:
                released = self._accountant.review(released, fresh, occasion)
            self._accountant.observe(released, fresh, occasion)
        self._release.record(released, occasion)
        if released is not None:
            self._head, counts = released, replace(counts, broadcasts=counts.broadcasts + 1)
        self._counts = counts
        return released

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Server:
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        with self._lock:
            twin.__setstate__(deepcopy(self.__getstate__(), memo))
        return twin

    def __repr__(self) -> str:
        return f"Server({self._ledger!r}, admission={list(self._admission)!r}, release={self._release!r})"


class ServerTarget:
    """A server in this process as one client sees it: a `Target`."""

    def __init__(self, server: Server, client: str) -> None:
        self._server = server
        self._client = as_name(client)

    def head(self) -> Head:
        """Return the head that the server last released."""
        return self._server.head()

    def submit(self, update: Update) -> Head:
        """Submit an update and return the head that is public afterwards."""
        receipt = self._server.submit(update, self._client)
        if receipt.reason is not None:
            raise RefusedError(receipt.reason, receipt.rule)
        return receipt.head if receipt.head is not None else self._server.head()

    def __repr__(self) -> str:
        return f"ServerTarget(client='{self._client}')"


class _NoHeadError(SingularStateError):
    """A state that has a factor and no finite head: the solve overflowed."""
