"""One federation: a server, honest clients that add and delete through it, and a malicious one among them.

The paper's server is the federation without rules: everybody's rows are in its ledger from the start, and it takes
whatever comes. Behind rules, clients upload in their own names, sign and show their rows where the server asks for it,
and are refused where it refuses.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from exhume.defence.config import Config, Defences
from exhume.errors import InputError, RefusedError
from exhume.numerics import Matrix, Rows, relative
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.message import Batch, itemise
from exhume.protocol.rules import Exposure, Heads, ReleaseRule
from exhume.protocol.server import Receipt, Server
from exhume.protocol.summary import Update
from exhume.simulate.rules import UPLOADS, Known, build_defences, known_of, signing_key, watched
from exhume.simulate.scenario import Scenario

__all__ = ["Asked", "Carrier", "Federation", "Insider", "Service"]

Carrier = Callable[[Server, Iterable[str]], Server]
"""Puts a server behind something that carries its messages, for clients of these names."""


@dataclass
class Service:
    """What honest clients got."""

    sent: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """By rule."""
    first: str | None = None
    """The first refusal, in the rule's own words."""
    withheld: int = 0
    """Accepted messages after which no head went out."""
    deletions_asked: int = 0
    deletions_served: int = 0
    behind: float = 0.0
    """Accepted changes that the public head did not show yet, summed over messages."""
    error: float = 0.0
    """Relative distance of freshly released heads from the exact ones, summed over releases."""
    released: int = 0


@dataclass(frozen=True)
class Asked:
    """What became of a request to delete."""

    refused: str | None
    """Why not everything was deleted; None where it was."""
    rule: str | None
    """The rule that refused."""
    released: bool
    """Whether a head went out afterwards; if not, the public head still has the deleted rows in it."""
    number: int
    """The logical submission."""


class Federation:
    """A server, its honest clients, and a place for a malicious one with as many identities as it likes.

    Make one with `bare` or `behind`.
    """

    def __init__(self, scenario: Scenario, server: Server, *, seed: int = 0, colluders: int = 1) -> None:
        self.scenario, self.server = scenario, server
        *planned, self.spare = scenario.identities(colluders)
        self.attackers = tuple(planned)
        """The names of the malicious client; `spare` is one more, which nobody planned for."""
        self.service = Service()
        self.log: list[tuple[str, Update]] | None = None
        """Accepted messages from here on, for those who set it to a list."""
        everybody = {*scenario.names, *self.attackers, self.spare}
        self._keys = {name: signing_key(name, seed) for name in everybody}
        self._counters = dict.fromkeys(everybody, 0)
        self.known: Known = known_of(server)
        """What an attacker who has read the configuration knows of the rules."""
        self._pending = 0
        self._inside = np.zeros(len(scenario.features), dtype=bool)
        self._later: list[frozenset[int]] = [frozenset()] * len(scenario.parts)
        self._batch_of: dict[int, Rows] = {}

    @classmethod
    def bare(
        cls,
        scenario: Scenario,
        precision: str = "float64",
        *,
        carrier: Carrier | None = None,
        solver: str = "direct",
    ) -> Federation:
        """Return the paper's server with everybody's rows in its ledger: it refuses nothing, releases every head.

        The solver is that of `Ledger`.
        """
        server = Server(Ledger(scenario.total, scenario.gamma, solver=solver), release=Heads(precision))
        made = cls(scenario, server if carrier is None else carrier(server, scenario.names))
        made._inside[np.concatenate(scenario.parts)] = True
        return made

    @classmethod
    def behind(
        cls,
        scenario: Scenario,
        rules: Config | Defences | ReleaseRule,
        *,
        seed: int = 0,
        colluders: int = 1,
        carrier: Carrier | None = None,
    ) -> Federation:
        """Return a server behind rules, to which all clients have uploaded their rows.

        An accountant that only reports is added where the rules have none: it changes no head.
        """
        ledger = Ledger.zeros(scenario.d, scenario.classes, scenario.gamma)
        names = list(dict.fromkeys([*scenario.names, *scenario.identities(colluders)]))
        server = watched(build_defences(rules, ledger, names, seed), scenario.d).server(ledger)
        server = server if carrier is None else carrier(server, names)
        made = cls(scenario, server, seed=seed, colluders=colluders)
        made._upload()
        return made

    def _upload(self) -> None:
        """Let everybody send its rows; nobody's messages are larger than the largest of an honest client."""
        s = self.scenario
        most = max((len(s.parts[k]) for k in s.honest), default=len(s.features))
        for part in range(UPLOADS):
            for k, name in enumerate(s.names):
                if k != s.attacker:
                    self._send_rows(name, np.array_split(s.parts[k], UPLOADS)[part])
                    continue
                for own, rows in zip(self.attackers, np.array_split(s.parts[k], len(self.attackers)), strict=True):
                    batch = np.array_split(rows, UPLOADS)[part]
                    for piece in np.array_split(batch, max(-(-len(rows) // max(most, 1)), 1)):
                        self._send_rows(own, piece)
        if not self._inside.any():
            raise InputError(
                "defence",
                "settings under which simulated clients can send their rows",
                f"{self.service.sent} messages, all refused ({self.service.first}); what this rule asks of a "
                "message cannot be simulated",
            )

    def _send_rows(self, name: str, rows: Rows) -> bool:
        if not len(rows):
            return False
        accepted = self._honest(name, add=rows)
        if accepted:
            self._inside[rows] = True
            self._batch_of.update((int(r), rows) for r in rows)
        return accepted

    def fork(self) -> Federation:
        """Return an independent copy; the rows are shared."""
        twin = copy.copy(self)
        twin.server, twin.service = copy.deepcopy(self.server), copy.deepcopy(self.service)
        twin._counters, twin._later = dict(self._counters), list(self._later)
        twin._batch_of, twin._inside = dict(self._batch_of), self._inside.copy()
        return twin

    # What goes to the server

    def dress(self, add: Batch | None, delete: Batch | None) -> Update:
        """Make an update of rows in the form that the server asks for."""
        sides = [None if side is None else (side.features, side.labels) for side in (add, delete)]
        made = itemise(self.scenario.classes, add=sides[0], delete=sides[1])
        return made if self.known.show_rows else Update(made.add, made.delete)

    def batch(self, rows: Rows | None) -> Batch | None:
        """Return rows of the data set as a batch."""
        return None if rows is None else Batch(self.scenario.features[rows], self.scenario.labels[rows])

    def submit(self, update: Update, name: str) -> Receipt:
        """Submit in a client's name, with its tag where the server asks for one."""
        receipt = self.server.submit(self._tagged(update, name), name)
        if receipt.accepted:
            # Before the first head there is none that could be behind.
            waiting = receipt.head is None and self.server.released is not None
            self._pending = self._pending + 1 if waiting else 0
            if self.log is not None:
                self.log.append((name, update))
        return receipt

    def _tagged(self, update: Update, name: str) -> Update:
        if self.known.sign is None:
            return update
        self._counters[name] += 1
        return self.known.sign(update, name, self._counters[name], self._keys[name])

    def target(self) -> Insider:
        """Return the server as the malicious client sees it."""
        return Insider(self)

    # What honest clients do

    def _honest(self, name: str, add: Rows | None = None, delete: Rows | None = None) -> bool:
        """Let an honest client send a message; returns whether it was accepted."""
        receipt = self.submit(self.dress(self.batch(add), self.batch(delete)), name)
        got = self.service
        got.sent += 1
        got.behind += self._pending
        if receipt.reason is not None:
            got.refused[receipt.rule or "server"] += 1
            got.first = got.first or receipt.reason
        elif receipt.head is None:
            got.withheld += 1
        else:
            exact = self.server.ledger.head()
            got.released += 1
            got.error += relative(receipt.head.weights - exact, exact)
        return receipt.accepted

    def background(self, rng: np.random.Generator) -> Rows:
        """Let one honest client add a few of its later rows; once half are in, take some out or put some back.

        Returns the rows of its message.
        """
        honest = self.scenario.honest
        k = honest[int(rng.integers(len(honest)))]
        rows = self.scenario.reserve[k] if self.scenario.reserve else np.empty(0, dtype=np.intp)
        standing, name = self._later[k], self.scenario.names[k]
        missing = np.array([r for r in rows if int(r) not in standing], dtype=np.intp)
        if len(missing) and (len(standing) < len(rows) // 2 or rng.random() < 0.5):
            batch = rng.permutation(missing)[: int(rng.integers(2, 5))]
            if self._send_rows(name, batch):
                self._later[k] = standing | {int(r) for r in batch}
            return batch
        if standing:
            batch = rng.permutation(sorted(standing))[: int(rng.integers(2, 5))]
            if self._honest(name, delete=batch):
                self._inside[batch] = False
                self._later[k] = standing - {int(r) for r in batch}
            return batch
        return np.empty(0, dtype=np.intp)

    def delete(self, rows: Rows) -> Asked:
        """Let the owners of some rows ask for their deletion, each for its own rows, in one round.

        A server without rules does not ask who deletes: one message then has all rows, as in the paper.
        """
        if not self._inside[rows].all():
            lost = int((~self._inside[rows]).sum())
            return Asked(f"upload: {lost} of these rows were refused when they came in", "upload", False, 0)
        if self.known.bare:
            round_ = [("honest", Update.deleting(self.scenario.summary(rows)))]
        else:
            owned = ((n, p[np.isin(p, rows)]) for n, p in zip(self.scenario.names, self.scenario.parts, strict=True))
            round_ = [(name, self._tagged(self.dress(None, self.batch(own)), name)) for name, own in owned if len(own)]
        receipts = self.server.submit_round(round_)
        refused = next((r for r in receipts if r.reason is not None), None)
        if refused is None:
            self._inside[rows] = False
        return Asked(
            None if refused is None else refused.reason,
            None if refused is None else refused.rule,
            any(r.head is not None for r in receipts),
            receipts[0].number,
        )

    def restore(self, rows: Rows) -> None:
        """Put deleted rows of a server without rules back in, for an evaluator who has no second copy of it."""
        self.server.submit(Update.adding(self.scenario.summary(rows)), "honest")
        self._inside[rows] = True

    def delete_somehow(self, record: int) -> Rows | None:
        """Let the owner delete a record, waiting or widening as the rules demand; returns what was deleted.

        A record that went with an earlier one counts as served.
        """
        k = self.scenario.owner(record)
        name = self.scenario.names[k]
        self.service.deletions_asked += 1
        if not self._inside[record]:
            self.service.deletions_served += 1
            return None
        others = np.array([r for r in self.scenario.parts[k] if int(r) != record and self._inside[r]], dtype=np.intp)
        for rows in (np.array([record]), np.append(others[:7], record), np.append(others[:15], record)):
            if self._honest(name, delete=rows):
                self.service.deletions_served += 1
                self._inside[rows] = False
                return rows
        # Where only whole messages can be deleted, the client deletes its batch and adds the rest again.
        batch = self._batch_of.get(record)
        if batch is None or not self._honest(name, delete=batch):
            return None
        self.service.deletions_served += 1
        self._inside[batch] = False
        self._send_rows(name, batch[batch != record])
        return np.array([record])

    def add_back(self, record: int) -> bool:
        """Let the owner add a record that it has deleted; returns whether it was accepted."""
        return self._send_rows(self.scenario.names[self.scenario.owner(record)], np.array([record]))

    # What the evaluator reads

    def head(self) -> Head | None:
        """Return the public head, if one was ever released."""
        try:
            return self.server.head()
        except RefusedError:
            return None

    @property
    def exact(self) -> bool:
        """Whether the public head is the ledger's own, bit for bit."""
        public = self.head()
        return public is not None and np.array_equal(public.weights, self.server.ledger.head())

    def exact_with(self, record: int) -> Matrix:
        """Return the exact head with one more record in the ledger."""
        twin = self.server.ledger.copy()
        twin.apply(Update.adding(self.scenario.summary(np.array([record]))))
        return twin.head()

    @property
    def A(self) -> Matrix:
        """The hidden regularised gram."""
        return self.server.ledger.summary.gram + self.scenario.gamma * np.eye(self.scenario.d)

    def exposures(self) -> Sequence[tuple[str, Exposure]]:
        """Return what each client could know by now; nothing where nobody keeps account."""
        if self.server.accountant is None:
            return []
        return [(name, self.server.exposure(name)) for name in self.scenario.names]


class Insider:
    """The server as the malicious client sees it: a `Target` that signs where a client must."""

    def __init__(self, federation: Federation, name: str | None = None) -> None:
        self._federation = federation
        self._name = name or federation.attackers[0]

    def head(self) -> Head:
        """Return the head that the server last released."""
        return self._federation.server.head()

    def submit(self, update: Update) -> Head:
        """Submit an update; a withheld release gives the previous head again."""
        receipt = self._federation.submit(update, self._name)
        if receipt.reason is not None:
            raise RefusedError(receipt.reason, receipt.rule)
        return receipt.head if receipt.head is not None else self.head()

    def __repr__(self) -> str:
        return f"Insider('{self._name}')"
