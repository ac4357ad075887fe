"""A malicious client that knows the defence: it scales down, splits, jitters, waits and cancels as it has to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from exhume.attack.block import Block
from exhume.attack.probes import moment_pairs
from exhume.attack.transcript import Recorder, Transcript
from exhume.attack.watched import Watcher
from exhume.errors import AttackError, InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.head import Head
from exhume.protocol.message import Batch
from exhume.protocol.server import Receipt
from exhume.protocol.summary import Summary, Update
from exhume.simulate.federation import Federation

__all__ = ["SCALES", "Draft", "Harvest", "Prober", "Spent"]

SCALES = (1e4, 1e2, 1.0, 1e-2)
"""Sizes of moment probes, tried from the loudest down until the server takes them."""

PATIENCE = 12
"""Own messages that the attacker spends to bring about one head, and others' messages that it waits for."""


@dataclass(frozen=True, eq=False)
class Draft:
    """One message as rows, real or made up: every probe is some, which is what a server that sees rows would see."""

    add: Batch | None
    delete: Batch | None = None

    @classmethod
    def moment(cls, moment: Matrix) -> Draft:
        """Move the moment alone (Lemma 1): add ``(q_k / 2, e_k)``, delete ``(-q_k / 2, e_k)``."""
        half, labels = moment_pairs(moment)
        used = moment.any(axis=0)
        return cls(Batch(half[used], labels[used]), Batch(-half[used], labels[used]))

    @classmethod
    def joined(cls, drafts: Sequence[Draft]) -> Draft:
        """Return several messages as one, without the batches that one adds and another deletes again."""
        add, delete = [p.add for p in drafts], [p.delete for p in drafts]
        both = {id(b) for b in add if b is not None} & {id(b) for b in delete if b is not None}
        return cls(*(_join([b for b in side if id(b) not in both]) for side in (add, delete)))

    def undo(self) -> Draft:
        """Return the message that takes this one back."""
        return Draft(self.delete, self.add)

    def split(self) -> tuple[Draft, Draft]:
        """Return a pair as two messages: first what it adds, then what it deletes."""
        return Draft(self.add, None), Draft(None, self.delete)


def _join(batches: list[Batch | None]) -> Batch | None:
    real = [b for b in batches if b is not None]
    if not real:
        return None
    return Batch(np.concatenate([b.features for b in real]), np.concatenate([b.labels for b in real]))


@dataclass(frozen=True, eq=False)
class _Sent:
    """A message that stands, and in whose name."""

    client: str
    draft: Draft


@dataclass
class Spent:
    """What an attack cost its author."""

    messages: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Refused messages by rule."""

    def note(self, receipt: Receipt) -> None:
        """Count one message."""
        self.messages += 1
        if not receipt.accepted:
            self.refused[receipt.rule or "server"] += 1


@dataclass(frozen=True, eq=False)
class Harvest:
    """The stacks of one run. What the attacker had standing when the baseline came out is ``offset = Q - P W``."""

    transcript: Transcript
    offset: Matrix

    @property
    def responses(self) -> int:
        """How many responses went into the stacks."""
        return self.transcript.responses

    def cleaned(self, A: Matrix, head: Head) -> Head:
        """Return a baseline without what the attacker had standing in it."""
        return Head(head.weights - np.linalg.solve(A, self.offset), head.precision) if self.offset.any() else head


def _side(own: Summary, head: Head) -> Matrix:
    side: Matrix = own.moment - own.gram @ head.weights
    return side


class Prober:
    """Sends updates through a federation in the attacker's names and keeps the stacks.

    Parameters
    ----------
    federation
        Where it is a client.
    rng
        Its dice.
    busy
        Probability that an honest client sends something before each of its messages.
    averaged
        Heads that it averages on each side of a deletion, where it does.
    """

    def __init__(
        self, federation: Federation, rng: np.random.Generator, busy: float = 0.0, averaged: int = 100
    ) -> None:
        self.federation, self.rng, self.busy, self.averaged = federation, rng, busy, averaged
        self.spent = Spent()
        self.clean = True
        """Whether the last head shows the ledger as the attacker left it."""
        self.told: Block | None = None
        """The deleted block, for an attacker who was told it."""
        self.target = -1
        """The deleted record, for the evaluator's part of an attack."""
        self.happens: Callable[[], bool] = lambda: False
        """Lets the owner add the deleted record again, for an attack on additions; returns whether it came in."""
        self.upcoming: Rows = np.empty(0, dtype=np.intp)
        """The rows of the next honest message, for an attacker that comes before it."""
        self.watcher: Watcher | None = None
        """Notes every broadcast, its own and others', for an attacker that watches."""
        self._turn, self._waits = 0, PATIENCE
        self._last: Update | None = None

    def facing(self, federation: Federation) -> Prober:
        """Return this attacker, as it now is, facing another copy of the federation."""
        twin = Prober(federation, np.random.default_rng(int(self.rng.integers(2**63))), self.busy, self.averaged)
        twin._turn, twin.clean = self._turn, self.clean
        return twin

    def feature(self) -> Matrix:
        """Return the deleted record's feature, for an attacker who knows it; its label stays hidden."""
        if self.told is None:
            raise AttackError("nobody told the feature")
        top = int(np.argmax(np.diag(self.told.gram)))
        row: Matrix = self.told.gram[top] / np.sqrt(self.told.gram[top, top])
        return row

    def head(self) -> Head:
        """Return the public head."""
        head = self.federation.head()
        if head is None:
            raise AttackError("no head was ever released")
        return head

    def send(self, draft: Draft, name: str | None = None) -> Receipt:
        """Send one message, in the next of the attacker's names unless one is given."""
        if self.busy and self.rng.random() < self.busy:
            self._others()
        names = self.federation.attackers
        sender = name if name is not None else names[self._turn % len(names)]
        self._turn += 1
        receipt = self._submit(draft, sender)
        if receipt.rule == "detector" and self._waits:
            # Slower looks more like honest traffic, at the price of changes that the attacker does not know.
            self._waits -= 1
            for _ in self.federation.scenario.honest:
                self._others()
            receipt = self._submit(draft, sender)
        return receipt

    def _others(self) -> None:
        """Let an honest client send something."""
        self.federation.background(self.rng)
        self._watch()

    def _watch(self) -> None:
        if self.watcher is not None and (head := self.federation.head()) is not None:
            self.watcher.heard(head)

    def send_update(self, update: Update, name: str | None = None) -> Receipt:
        """Send sums, in the attacker's first name unless one is given: what no rows stand behind."""
        sender = self.federation.attackers[0] if name is None else name
        try:
            receipt = self.federation.submit(update, sender)
        except InputError as error:  # the ledger itself refuses what leaves no head
            receipt = _impossible(sender, error)
        self.spent.note(receipt)
        return receipt

    def _submit(self, draft: Draft, sender: str) -> Receipt:
        self._last = self.federation.dress(draft.add, draft.delete)
        try:
            receipt = self.federation.submit(self._last, sender)
        except InputError as error:
            receipt = _impossible(sender, error)
        self.spent.note(receipt)
        if receipt.accepted and self.watcher is not None:
            self.watcher.sent(self._last.net)
            self._watch()
        self.clean = receipt.head is not None if receipt.accepted else self.clean
        return receipt

    def run(self, drafts: Sequence[Draft], probe: str, enough: int | None = None) -> Harvest:
        """Send drafts from the present state, listen where a new head comes, take everything back.

        Refused messages are left out. Where a head is withheld, the attacker adds rows of its own, then waits for
        others. Stops early once ``enough`` responses are in.
        """
        standing: list[_Sent] = []
        recorder = Recorder(self.head(), probe)
        heard = 0
        try:
            if self.federation.known.gated:
                # The public head may be older than the ledger: a baseline must be as new as the responses.
                self._fresh(self.head().serial, recorder, standing)
                own, recorder = recorder.total, Recorder(self.head(), probe)
                recorder.sent(own)
            offset = _side(recorder.total, recorder.baseline)
            for draft in drafts:
                before = self.head().serial
                if not self._stands(draft, recorder, standing):
                    continue
                if self._fresh(before, recorder, standing):
                    recorder.heard(self.head())
                    heard += 1
                    if enough is not None and heard >= enough:
                        break
        finally:
            self.cancel(standing)
        found = recorder.transcript(self.head())
        return Harvest(replace(found, Z=found.Z - np.tile(offset, heard)), offset)

    def moments(self, totals: Callable[[float], Sequence[Matrix]], probe: str) -> Harvest:
        """Run a moment probe at the loudest scale that the server takes, its pairs whole or split in two messages."""
        best: Harvest | None = None
        for split in (False, True):
            for scale in SCALES:
                stack = totals(scale)
                before = [np.zeros_like(stack[0]), *stack[:-1]]
                drafts = [Draft.moment(b - a) for a, b in zip(before, stack, strict=True)]
                parts = [part for draft in drafts for part in (draft.split() if split else (draft,))]
                if not self.takes(parts[: 2 if split else 1]):
                    continue
                found = self.run(parts, probe)
                if best is None or found.responses > best.responses:
                    best = found
                if best.responses >= len(drafts):
                    return best
        if best is None or best.responses == 0:
            raise AttackError("the server refused every probe")
        return best

    def cancel(self, standing: list[_Sent]) -> None:
        """Take back what stands: each name's messages in one, else one by one, else not at all."""
        for name in dict.fromkeys(sent.client for sent in standing):
            mine = [sent.draft for sent in standing if sent.client == name]
            if not self.send(Draft.joined(mine).undo(), name).accepted:
                for draft in reversed(mine):
                    self.send(draft.undo(), name)

    def own_drafts(self, rows: Rows, batches: int) -> list[Draft]:
        """Cut rows, in a new order, into batches to add."""
        order = self.rng.permutation(rows)
        return [self.adding(batch) for batch in np.array_split(order, min(batches, len(order)))]

    def adding(self, rows: Rows) -> Draft:
        """Draft a message that adds rows of the data set."""
        return Draft(self.federation.batch(rows))

    def provoke(self, since: int | None) -> tuple[Head, Summary]:
        """Bring about a head newer than ``since``; returns the last one and what of the attacker's own was in it."""
        standing: list[_Sent] = []
        recorder = Recorder(self.head(), "provoke")
        self._fresh(since, recorder, standing)
        head = self.head()
        self.cancel(standing)
        return head, recorder.total

    def takes(self, first: Sequence[Draft]) -> bool:
        """Whether the server takes the first messages of a plan; they are taken back at once."""
        standing: list[_Sent] = []
        recorder = Recorder(self.head(), "try")
        taken = [self._stands(draft, recorder, standing) for draft in first]
        self.cancel(standing)
        return all(taken)

    def _stands(self, draft: Draft, recorder: Recorder, standing: list[_Sent]) -> bool:
        receipt = self.send(draft)
        if receipt.accepted:
            standing.append(_Sent(receipt.client, draft))
            assert self._last is not None
            recorder.sent(self._last.net)
        return receipt.accepted

    def _fresh(self, before: int | None, recorder: Recorder, standing: list[_Sent]) -> bool:
        """Whether a head newer than ``before`` is out, after all that the attacker can do for it."""
        own = PATIENCE if self.federation.known.counts_changes else len(self.federation.attackers)
        for attempt in range(own + PATIENCE):
            head = self.federation.head()
            if head is not None and head.serial != before:
                return True
            if attempt >= own:
                self._others()
            else:  # two rows a message: so many pairs that a server without a row ledger sees no message twice
                pair = self.rng.choice(self.federation.scenario.held_out, 2, replace=False)
                self._stands(self.adding(pair), recorder, standing)
        return False


def _impossible(sender: str, error: InputError) -> Receipt:
    return Receipt(sender, False, str(error), None, 0, "ledger")
