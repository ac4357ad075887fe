"""What the operator sees: exposure, deletions, decisions and rules, as rows."""

from __future__ import annotations

import math
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel, Field

from exhume.defence.interference import interfering, reads_of
from exhume.defence.release import accounts_of, rules_of
from exhume.service.core import FederationService
from exhume.store import StoredReceipt
from exhume.store.schema import RECEIPTS

__all__ = ["DecisionRow", "DeletionRow", "ExposureRow", "Exposures", "RuleRow", "decision", "decisions", "deletions"]
__all__ += ["exposures", "rules", "tells"]

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


class Exposures(BaseModel):
    """What each client could know, or why nobody keeps account of it."""

    kept: bool
    words: str
    clients: list[ExposureRow]


class DeletionRow(BaseModel):
    """One deletion: when it was taken, when it had left the disk, and what the heads since tell of it."""

    client: str
    key: str
    number: int
    at: float
    erased_at: float | None
    figures: dict[str, float | None] | None = Field(description="Gaussian privacy; null where no rule keeps account.")


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
        if server.accountant is None:
            words = "no accountant is configured; the release rules keep account of deletions"
            return Exposures(kept=False, words=words, clients=[])
        found = [(one.name, server.exposure(one.name)) for one in service.tokens.active()]
    rows = [ExposureRow(client=name, value=one.value, meaning=one.meaning) for name, one in found]
    return Exposures(kept=True, words="what each client alone could know of the hidden state", clients=rows)


def deletions(service: FederationService, limit: int) -> list[DeletionRow]:
    """Return the latest deletions, with what the heads tell of them."""
    wanted = sa.select(RECEIPTS).where(RECEIPTS.c.deletes).order_by(RECEIPTS.c.seq.desc()).limit(limit)
    with service.store.engine.connect() as connection:
        rows = connection.execute(wanted).all()
    with service.store.paused() as server:
        kept = [account for rule in accounts_of(server.release) for account in rule.deletions]
    figures = {(account.number, account.client): account.figures() for account in kept}
    return [
        DeletionRow(
            client=row.client,
            key=row.key,
            number=row.number,
            at=row.at,
            erased_at=row.erased_at,
            figures=_finite(figures.get((row.number, row.client))),
        )
        for row in rows
    ]


def _finite(figures: dict[str, float] | None) -> dict[str, float | None] | None:
    """Return figures as JSON has them: infinity is null."""
    return None if figures is None else {name: x if math.isfinite(x) else None for name, x in figures.items()}


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
