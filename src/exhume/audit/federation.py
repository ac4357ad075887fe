"""A federation that lives through its server: clients upload in their own names, ask for deletions, are refused."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from exhume.audit.configured import build_defences, key_of
from exhume.defence.accountant import IdentificationAccountant
from exhume.defence.admission import Origin, Ownership, itemise, sign
from exhume.defence.config import Config, Defences
from exhume.defence.release import Chain, DeletionMask, PrivacyBudget
from exhume.errors import InputError, RefusedError
from exhume.numerics import Rows
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Exposure, Heads
from exhume.protocol.server import Receipt
from exhume.protocol.summary import Update
from exhume.simulate.scenario import Scenario

__all__ = ["UPLOADS", "Asked", "Federation", "Uploads", "rule_of"]

UPLOADS = 3
"""Messages in which a client sends its rows."""


def rule_of(reason: str) -> str:
    """Return the name of the rule that gave a reason."""
    return reason.split(":", 1)[0]


@dataclass
class Uploads:
    """How the clients' own rows fared on their way in."""

    sent: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """By rule."""
    withheld: int = 0
    """Accepted messages after which no head went out."""
    first: str | None = None
    """The first refusal, in the rule's own words."""


@dataclass(frozen=True)
class Asked:
    """What became of a request to delete."""

    refused: str | None
    """Why not everything was deleted; None where it was."""
    released: bool
    """Whether a head went out afterwards; if not, the public head still has the deleted rows in it."""
    number: int
    """The logical submission."""


class Federation:
    """A server behind some defences, and clients that have uploaded their rows through it.

    Where the defences have no accountant, one that only reports is added: it changes no head.

    Parameters
    ----------
    scenario
        Who holds which rows, and who is malicious.
    defences
        What the server refuses and lets out, made for ``ledger``.
    ledger
        An empty ledger.
    seed
        The seed of the clients' keys.
    """

    def __init__(self, scenario: Scenario, defences: Defences, ledger: Ledger, seed: int = 0) -> None:
        self.scenario = scenario
        if defences.accountant is None and scenario.d > 1:
            defences = replace(defences, accountant=IdentificationAccountant(1, action="report"))
        self.defences, self.server = defences, defences.server(ledger)
        self.names = tuple(f"client {k}" for k in range(len(scenario.parts)))
        self.attacker = self.names[scenario.attacker]
        self.uploads = Uploads()
        self._keys = {name: key_of(name, seed) for name in self.names}
        self._counters = dict.fromkeys(self.names, 0)
        self._signed = any(isinstance(rule, Origin) for rule in defences.admission)
        self.shows_rows = any(isinstance(rule, Ownership) and rule.rows for rule in defences.admission)
        """Whether a message counts only with its rows."""
        self._inside = np.zeros(len(scenario.features), dtype=bool)
        self._upload()

    @classmethod
    def configured(cls, scenario: Scenario, config: Config, seed: int) -> Federation:
        """Return the federation of an operator's configuration."""
        ledger = Ledger.zeros(scenario.d, scenario.classes, scenario.gamma)
        names = (f"client {k}" for k in range(len(scenario.parts)))
        return cls(scenario, build_defences(config, ledger, names, seed), ledger, seed)

    @classmethod
    def bare(cls, scenario: Scenario, heads: str) -> Federation:
        """Return the federation of the paper's server, which refuses nothing and releases every head."""
        ledger = Ledger.zeros(scenario.d, scenario.classes, scenario.gamma)
        return cls(scenario, Defences((), Chain([Heads(heads)]), None), ledger)

    def _upload(self) -> None:
        for part in range(UPLOADS):
            for name, rows in zip(self.names, self.scenario.parts, strict=True):
                batch = np.array_split(rows, UPLOADS)[part]
                if len(batch):
                    self._send(name, batch)
        if not self._inside.any():
            raise InputError(
                "defence",
                "settings under which the audit's clients can send their rows",
                f"{self.uploads.sent} messages, all refused ({self.uploads.first}); what this rule asks of a "
                "message the audit cannot simulate",
            )

    def _send(self, name: str, rows: Rows) -> None:
        receipt = self.submit(self._dressed(add=rows), name)
        self.uploads.sent += 1
        if receipt.reason is not None:
            self.uploads.refused[rule_of(receipt.reason)] += 1
            self.uploads.first = self.uploads.first or receipt.reason
            return
        self._inside[rows] = True
        self.uploads.withheld += receipt.head is None

    def fork(self) -> Federation:
        """Return an independent copy; the rows are shared."""
        twin = copy.copy(self)
        # Together, so that the copied defences are those of the copied server.
        twin.server, twin.defences = copy.deepcopy((self.server, self.defences))
        twin._counters = dict(self._counters)
        return twin

    def submit(self, update: Update, name: str) -> Receipt:
        """Submit in a client's name, with its tag where the server asks for one."""
        return self.server.submit(self._tagged(update, name), name)

    def target(self) -> Insider:
        """Return the server as the malicious client sees it."""
        return Insider(self)

    def delete(self, rows: Rows) -> Asked:
        """Let the owners of some rows ask for their deletion, each for its own rows, in one round."""
        if not self._inside[rows].all():
            lost = int((~self._inside[rows]).sum())
            return Asked(f"upload: {lost} of these rows were refused when they came in", False, 0)
        owned = ((name, part[np.isin(part, rows)]) for name, part in zip(self.names, self.scenario.parts, strict=True))
        receipts = self.server.submit_round(
            [(name, self._tagged(self._dressed(delete=own), name)) for name, own in owned if len(own)]
        )
        refused = next((r.reason for r in receipts if r.reason is not None), None)
        return Asked(refused, any(r.head is not None for r in receipts), receipts[0].number)

    def head(self) -> Head | None:
        """Return the public head, if one was ever released."""
        try:
            return self.server.head()
        except RefusedError:
            return None

    def exposures(self) -> Iterable[tuple[str, Exposure]]:
        """Return what each client could know by now."""
        return [] if self.defences.accountant is None else [(n, self.server.exposure(n)) for n in self.names]

    @property
    def accounts(self) -> list[PrivacyBudget | DeletionMask]:
        """The release rules in force that keep account of what each deletion tells."""
        rules = self.defences.release.rules if isinstance(self.defences.release, Chain) else ()
        return [rule for rule in rules if isinstance(rule, (PrivacyBudget, DeletionMask))]

    def _dressed(self, add: Rows | None = None, delete: Rows | None = None) -> Update:
        """Make an honest message, with its rows where the server asks for them."""
        s = self.scenario
        sides = [None if rows is None else (s.features[rows], s.labels[rows]) for rows in (add, delete)]
        made = itemise(s.classes, add=sides[0], delete=sides[1])
        return made if self.shows_rows else Update(made.add, made.delete)

    def _tagged(self, update: Update, name: str) -> Update:
        if not self._signed:
            return update
        self._counters[name] += 1
        return sign(update, name, self._counters[name], self._keys[name])


class Insider:
    """The server as the malicious client sees it: a `Target` that signs where a client must."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation

    def head(self) -> Head:
        """Return the head that the server last released."""
        return self._federation.server.head()

    def submit(self, update: Update) -> Head:
        """Submit an update; a withheld release gives the previous head again."""
        receipt = self._federation.submit(update, self._federation.attacker)
        if receipt.reason is not None:
            raise RefusedError(receipt.reason)
        return receipt.head if receipt.head is not None else self.head()
