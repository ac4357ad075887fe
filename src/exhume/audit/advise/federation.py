"""A live federation under one defence: honest traffic, and what it costs everybody."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass

import numpy as np

from exhume.attack._linalg import relative
from exhume.audit.advise.defences import Context, Defence
from exhume.audit.advise.setting import Setting
from exhume.defence.admission import Batch, itemise, sign
from exhume.defence.release import Chain, DeletionMask
from exhume.errors import RefusedError
from exhume.numerics import Matrix, Rows
from exhume.protocol import Head, Ledger, Receipt, Update

__all__ = ["ATTACKER", "Federation", "Service", "key_of"]

ATTACKER = "mallory"


def key_of(client: str, seed: int) -> bytes:
    """Return a client's secret key."""
    return hashlib.sha256(f"{seed} {client}".encode()).hexdigest().encode()


@dataclass
class Service:
    """What honest clients got."""

    sent: int = 0
    refused: int = 0
    deletions_asked: int = 0
    deletions_served: int = 0
    behind: float = 0.0
    """Accepted changes that the public head did not show yet, summed over observations."""
    observed: int = 0
    error: float = 0.0
    """Relative distance of freshly released heads from the exact ones, summed over releases."""
    released: int = 0


class Federation:
    """A server with a defence, its honest clients, and a place for malicious ones.

    Parameters
    ----------
    setting
        Who holds which rows.
    defence
        How the server is made.
    colluders
        How many identities the attacker has.
    """

    def __init__(self, setting: Setting, defence: Defence, colluders: int = 1) -> None:
        self.setting, self.defence = setting, defence
        names = [f"client {k}" for k in range(len(setting.honest))]
        self.attackers = [ATTACKER if i == 0 else f"{ATTACKER} {i + 1}" for i in range(colluders)]
        keys = {name: key_of(name, setting.seed) for name in [*names, *self.attackers]}
        self.server = defence.build(
            Context(setting, keys, colluders), Ledger.zeros(setting.d, setting.classes, setting.gamma)
        )
        self.service = Service()
        self.log: list[tuple[str, Update]] | None = None
        """Accepted messages from here on, for those who set it to a list."""
        self._keys, self._counters = keys, dict.fromkeys(keys, 0)
        self._pending = 0
        self._later: list[frozenset[int]] = [frozenset()] * len(names)
        self._gone: frozenset[int] = frozenset()
        self.batch_of: dict[int, Rows] = {}
        self._start(names)

    def _start(self, names: list[str]) -> None:
        """Let everybody upload in three rounds; the attacker, who has more, sends two messages a round."""
        s = self.setting
        shares = list(zip(self.attackers, np.array_split(s.own, len(self.attackers)), strict=True))
        for part in range(3):
            for k in range(len(names)):
                rows = np.array_split(s.honest[k], 3)[part]
                if self.honest(k, add=rows):
                    self.batch_of.update((int(r), rows) for r in rows)
                if k % 4 == 3:
                    for name, own in shares:
                        batch = np.array_split(own, 6)[2 * part + k // 4 % 2]
                        self.submit(self.dress(self.batch(batch), None), name)

    def fork(self) -> Federation:
        """Return an independent copy; the rows are shared."""
        twin = copy.copy(self)
        twin.server = copy.deepcopy(self.server)
        twin.service = copy.copy(self.service)
        twin._counters, twin._later = dict(self._counters), list(self._later)
        twin.batch_of = dict(self.batch_of)
        return twin

    def batch(self, rows: Rows | None) -> Batch | None:
        """Return rows of the data set as a batch."""
        return None if rows is None else Batch(self.setting.features[rows], self.setting.labels[rows])

    def dress(self, add: Batch | None, delete: Batch | None) -> Update:
        """Make an update of rows in the form that the defence asks for."""
        made = itemise(
            self.setting.classes,
            add=None if add is None else (add.features, add.labels),
            delete=None if delete is None else (delete.features, delete.labels),
        )
        return made if self.defence.itemised else Update(made.add, made.delete)

    def submit(self, update: Update, client: str) -> Receipt:
        """Submit in a client's name, with its tag where the defence asks for one."""
        if self.defence.signed:
            self._counters[client] += 1
            update = sign(update, client, self._counters[client], self._keys[client])
        receipt = self.server.submit(update, client)
        if receipt.accepted and self.log is not None:
            self.log.append((client, update))
        if receipt.accepted:
            self._pending = 0 if receipt.head is not None else self._pending + 1
        return receipt

    def head(self) -> Head | None:
        """Return the public head, if one was ever released."""
        try:
            return self.server.head()
        except RefusedError:
            return None

    def honest(self, k: int, add: Rows | None = None, delete: Rows | None = None) -> bool:
        """Let an honest client send a message; returns whether it was accepted."""
        receipt = self.submit(self.dress(self.batch(add), self.batch(delete)), f"client {k}")
        self.service.sent += 1
        self.service.refused += not receipt.accepted
        self.service.observed += 1
        self.service.behind += self._pending
        if receipt.head is not None:
            exact = self.server.ledger.head()
            self.service.released += 1
            self.service.error += relative(receipt.head.weights - exact, exact)
        return receipt.accepted

    def background(self, rng: np.random.Generator) -> None:
        """Let one honest client add a few of its later rows; once all are in, take some out or put some back."""
        k = int(rng.integers(len(self._later)))
        rows, standing = self.setting.reserve[k], self._later[k]
        missing = np.array([r for r in rows if int(r) not in standing], dtype=np.intp)
        if len(missing) and (len(standing) < len(rows) // 2 or rng.random() < 0.5):
            batch = rng.permutation(missing)[: int(rng.integers(2, 5))]
            if self.honest(k, add=batch):
                self._later[k] = standing | {int(r) for r in batch}
                self.batch_of.update((int(r), batch) for r in batch)
        elif standing:
            batch = rng.permutation(sorted(standing))[: int(rng.integers(2, 5))]
            if self.honest(k, delete=batch):
                self._later[k] = standing - {int(r) for r in batch}

    def delete(self, row: int) -> Rows | None:
        """Let the owner delete a record, waiting or widening as the defence demands; returns what was deleted.

        A record that went with an earlier one counts as served.
        """
        s, k = self.setting, self.setting.owner(row)
        self.service.deletions_asked += 1
        if row in self._gone:
            self.service.deletions_served += 1
            return None
        part = s.honest[k]
        others = np.array([r for r in part if int(r) != row and int(r) not in self._gone], dtype=np.intp)
        together = [np.array([row]), np.append(others[:7], row), np.append(others[:15], row)]
        for rows in together:
            if self.honest(k, delete=rows):
                self.service.deletions_served += 1
                self._gone |= {int(r) for r in rows}
                return rows
        # Where only whole messages can be deleted, the client deletes its batch and adds the rest again.
        batch = self.batch_of.get(row)
        if batch is None or not self.honest(k, delete=batch):
            return None
        self.service.deletions_served += 1
        self._gone |= {row}
        rest = batch[batch != row]
        if self.honest(k, add=rest):
            self.batch_of.update((int(r), rest) for r in rest)
        return np.array([row])

    def accuracy(self, weights: Matrix) -> float:
        """Return the test accuracy of some weights."""
        return Head(weights).accuracy(self.setting.test_features, self.setting.test_labels)

    @property
    def A(self) -> Matrix:
        """The hidden regularised gram."""
        return self.server.ledger.summary.gram + self.setting.gamma * np.eye(self.setting.d)

    def masked_totals(self) -> tuple[Matrix, Matrix] | None:
        """Return the masked A and G, all that heads of a server with a mask can ever tell; None without a mask."""
        return None if self._mask is None else self._mask.totals(self.server.ledger)

    def mask_noise(self) -> tuple[float, float]:
        """Return what a single deletion is behind: the noise of the head and of the gram."""
        assert self._mask is not None
        return self._mask.single(self.setting.d)

    @property
    def _mask(self) -> DeletionMask | None:
        rules = self.server.release.rules if isinstance(self.server.release, Chain) else ()
        return next((rule for rule in rules if isinstance(rule, DeletionMask)), None)
