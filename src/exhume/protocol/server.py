"""The party that keeps the totals and broadcasts heads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from exhume.errors import InputError, RefusedError
from exhume.protocol.head import Head
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
    """The name of the rule that refused it; None where it was accepted."""


class Server:
    """A ledger behind admission rules and a release rule.

    A released head is a broadcast: every client sees it. The paper's server has no admission rule and releases
    `Heads("float64")` or `Heads("float32")`.

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

    def resume(self, counts: Counts, head: Head | None) -> None:
        """Go on where a server that stopped was: its counts, and the head that it last released."""
        if head is not None and (head.d, head.c) != self.shape:
            raise InputError("head", f"of d, c = {self.shape}, as the ledger", f"{head.d}, {head.c}")
        self._counts, self._head = counts, head

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
            self._broadcast((), ())
        if self._head is None:
            raise RefusedError("no head has been released yet")
        return self._head

    def submit(self, update: Update, client: str) -> Receipt:
        """Take one client's update: admission, ledger, release."""
        return self.submit_round([(client, update)])[0]

    def submit_round(self, messages: Iterable[tuple[str, Update]]) -> list[Receipt]:
        """Take one round: the messages of K clients, summed, applied as one logical submission, one broadcast.

        Refused messages are left out of the sum; if none is left, nothing changes and nothing is broadcast.
        """
        pending = list(messages)
        if not pending:
            raise InputError("messages", "at least one (client, update) pair", "none")
        names = [client for client, _ in pending]
        if len(set(names)) < len(names):
            # Rules judge a message by what was recorded before the round: a second one would slip past them.
            raise InputError(
                "messages", "at most one per client in a round", f"{len(names)} of {len(set(names))} clients"
            )
        verdicts = [(client, update, self._refusal(client, update)) for client, update in pending]
        accepted = [(client, update) for client, update, refusal in verdicts if refusal is None]
        head = self._accept(accepted) if accepted else None
        refused = len(pending) - len(accepted)
        self._counts = replace(self._counts, refused=self._counts.refused + refused)
        number = self._counts.submissions
        return [
            Receipt(client, True, None, head, number)
            if refusal is None
            else Receipt(client, False, refusal.reason, None, number, refusal.rule)
            for client, _, refusal in verdicts
        ]

    def exposure(self, client: str) -> Exposure:
        """Return what a client could know of the hidden state by now; needs an accountant."""
        if self._accountant is None:
            raise InputError("accountant", "given to the server (or use exhume.hardened) to ask for exposure", "none")
        return self._accountant.exposure(client)

    def as_target(self, client: str) -> ServerTarget:
        """Return this server as ``client`` sees it."""
        return ServerTarget(self, client)

    def _refusal(self, client: str, update: Update) -> RefusedError | None:
        if (update.d, update.c) != self.shape:
            d, c = self.shape
            raise InputError("update", f"of d = {d}, c = {c}, as the ledger", f"d = {update.d}, c = {update.c}")
        for rule in self._admission:
            if (reason := rule.refuse(update, client)) is not None:
                return RefusedError(reason, rule.name or type(rule).__name__)
        return None

    def _accept(self, messages: Sequence[tuple[str, Update]]) -> Head | None:
        updates = tuple(update for _, update in messages)
        total = updates[0]
        for update in updates[1:]:
            total = total + update
        self._ledger.apply(total)
        for client, update in messages:
            for rule in self._admission:
                rule.record(update, client)
        self._counts = replace(
            self._counts,
            submissions=self._counts.submissions + 1,
            messages=self._counts.messages + len(updates),
            pairs=self._counts.pairs + total.pairs,
        )
        return self._broadcast(tuple(client for client, _ in messages), updates)

    def _broadcast(self, clients: tuple[str, ...], updates: tuple[Update, ...]) -> Head | None:
        fresh = Head(self._ledger.head(), serial=self._counts.broadcasts + 1)
        occasion = Occasion(self._ledger, clients, updates, self._counts)
        try:
            released = self._release.release(fresh, occasion)
            if self._accountant is not None:
                if released is not None:
                    released = self._accountant.review(released, fresh, occasion)
                self._accountant.observe(released, fresh, occasion)
        except BaseException:
            # The change is in the ledger, so the rules must know of it: a mask that missed a deletion would show it.
            self._release.record(None, occasion)
            raise
        self._release.record(released, occasion)
        if released is not None:
            self._counts = replace(self._counts, broadcasts=self._counts.broadcasts + 1)
            self._head = released
        return released

    def __repr__(self) -> str:
        return f"Server({self._ledger!r}, admission={list(self._admission)!r}, release={self._release!r})"


class ServerTarget:
    """A server in this process as one client sees it: a `Target`."""

    def __init__(self, server: Server, client: str) -> None:
        self._server = server
        self._client = client

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
