"""What the operator sees: exposure, deletions, decisions and rules, as rows."""

from __future__ import annotations

import math
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel, Field

from exhume.defence.interference import interfering, reads_of
from exhume.defence.release import DeletionAccount, EventAccount, KeepsTallies, accounts_of, rules_of
from exhume.protocol.server import Server
from exhume.service.core import FederationService
from exhume.store import StoredReceipt
from exhume.store.schema import RECEIPTS

__all__ = ["AccountRow", "DecisionRow", "DeletionRow", "ExposureRow", "Exposures", "RuleRow", "decision", "decisions"]
__all__ += ["deletions", "exposures", "rules", "tells"]

_DECIDED = ("seq", "client", "key", "accepted", "number", "serial", "rule", "reason", "at", "deletes", "erased_at")


class RuleRow(BaseModel):
    """A rule in force."""

    name: str
    kind: str
    about: str
    reads: str = Field(description="What its visible decisions may read: message, client or everyone.")
    refused: int | None = None


class ExposureRow(BaseModel):
    """What one client could know of the hidden state."""

    client: str
    value: float = Field(description="From 0 (nothing) to 1 (the state is identifiable).")
    meaning: str


class AccountRow(BaseModel):
    """All events of a kind that a release rule has kept account of."""

    rule: str
    kind: str
    events: int = Field(description="How many there were in all; the newest are kept one by one.")
    mu: float | None = Field(description="The largest figure of all; null if infinite.")
    block: float | None = Field(description="The largest of a whole block.")


class Exposures(BaseModel):
    """What each client could know, or why nobody keeps account of it."""

    kept: bool
    words: str
    clients: list[ExposureRow]
    accounts: list[AccountRow] = Field(description="What the release rules have kept account of, in all.")


class DeletionRow(BaseModel):
    """One deletion: when it was taken, when it had left the disk, and what the heads since tell of it."""

    client: str
    key: str
    number: int
    at: float
    erased_at: float | None
    figures: dict[str, float | None] | None = Field(
        description="Gaussian privacy; null where no rule keeps account, or no longer of this one by itself."
    )
    bounds: str | None = Field(description="What mu_total bounds: every record that went, or the block as a whole.")


class DecisionRow(BaseModel):
    """One decision with its reason, which is for the operator only."""

    seq: int
    client: str
    key: str
    accepted: bool
    number: int
    serial: int | None
    rule: str | None
    reason: str | None
    at: float
    deletes: bool
    erased_at: float | None


def rules(service: FederationService) -> list[RuleRow]:
    """Return the rules in force, in the order in which they are asked."""
    server = service.store.server
    found: list[tuple[str, Any]] = [("admission", rule) for rule in server.admission]
    found += [("release", rule) for rule in rules_of(server.release)]
    if server.accountant is not None:
        found.append(("accountant", server.accountant))
    return [
        RuleRow(
            name=(name := rule.name or type(rule).__name__),
            kind=kind,
            about=rule.about,
            reads=reads_of(rule),
            refused=service.refusals.get(name, 0) if kind == "admission" else None,
        )
        for kind, rule in found
    ]


def tells(service: FederationService) -> list[str]:
    """Return the rules whose decisions may tell one client about others."""
    return list(interfering(service.store.server))


def exposures(service: FederationService) -> Exposures:
    """Return what each enrolled client could know by now."""
    with service.store.paused() as server:
        accounts = _accounts(server)
        accountant = server.accountant is not None
        found = [(one.name, server.exposure(one.name)) for one in service.tokens.active()] if accountant else []
    rows = [ExposureRow(client=name, value=one.value, meaning=one.meaning) for name, one in found]
    words = "what each client alone could know of the hidden state" if accountant else _unaccounted(accounts)
    return Exposures(kept=accountant, words=words, clients=rows, accounts=accounts)


def _accounts(server: Server) -> list[AccountRow]:
    return [
        AccountRow(rule=rule.name, kind=kind, events=one.events, mu=_number(one.mu), block=_number(one.block))
        for rule in rules_of(server.release)
        if isinstance(rule, KeepsTallies)
        for kind, one in rule.tallies.items()
    ]


def _unaccounted(accounts: list[AccountRow]) -> str:
    told = ", ".join(f"{one.events} {one.kind}" for one in accounts)
    words = "no accountant is configured; the release rules keep account of deletions"
    return f"{words} ({told} so far; the newest one by one)" if told else words


def deletions(service: FederationService, limit: int) -> list[DeletionRow]:
    """Return the latest deletions, with what the heads tell of them."""
    wanted = sa.select(RECEIPTS).where(RECEIPTS.c.deletes).order_by(RECEIPTS.c.seq.desc()).limit(limit)
    with service.store.engine.connect() as connection:
        rows = connection.execute(wanted).all()
    with service.store.paused() as server:
        kept = [rule.deletions for rule in accounts_of(server.release)]
    accounts = {(account.number, account.client): account for some in kept for account in some}
    return [
        DeletionRow(
            client=row.client,
            key=row.key,
            number=row.number,
            at=row.at,
            erased_at=row.erased_at,
            **_figures(accounts.get((row.number, row.client))),
        )
        for row in rows
    ]


def _figures(account: DeletionAccount | None) -> dict[str, Any]:
    """Return the figures of a deletion as JSON has them, and what they bound."""
    if account is None:
        return {"figures": None, "bounds": None}
    shown = isinstance(account, EventAccount) and account.rows > 0
    figures = {name: _number(x) for name, x in account.figures().items()}
    return {"figures": figures, "bounds": "record" if shown else "block"}


def _number(x: float) -> float | None:
    return x if math.isfinite(x) else None


def decisions(service: FederationService, limit: int, before: int | None) -> list[DecisionRow]:
    """Return decisions before a number, the latest first."""
    wanted = sa.select(*(RECEIPTS.c[name] for name in _DECIDED)).order_by(RECEIPTS.c.seq.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(RECEIPTS.c.seq < before)
    with service.store.engine.connect() as connection:
        return [DecisionRow(**row._mapping) for row in connection.execute(wanted)]


def decision(receipt: StoredReceipt) -> DecisionRow:
    """Return a receipt as the operator sees it."""
    return DecisionRow(**{name: getattr(receipt, name) for name in _DECIDED})
