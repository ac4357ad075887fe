"""A limit on what the releases after a deletion may tell of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from exhume.defence.memory import Memory, client_names
from exhume.defence.privacy import Shift, shift_of_deletion
from exhume.defence.release._base import Rule, at_least, positive
from exhume.defence.release._evaluator import DeletionAccount
from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.rules import Occasion

__all__ = ["BudgetedDeletion", "PrivacyBudget"]

SCOPES = ("run", "always")


@dataclass(frozen=True)
class BudgetedDeletion(DeletionAccount):
    """One deletion and the releases since. Of the deleted data only two numbers are kept."""

    releases: int = 0
    """Distinct heads that went out since."""
    run: int = 0
    """Those of them that went out before a change that no colluders know."""
    others: tuple[str, ...] = ()
    """Who else has changed something since."""
    closed: bool = False
    """Whether such a change has come."""

    @property
    def total(self) -> float:
        """The mu of all releases since, for an attacker who knows all other data."""
        return self.mu * math.sqrt(self.releases)

    @property
    def in_run(self) -> float:
        """The mu of the releases of the quiet run after it."""
        return self.mu * math.sqrt(self.run)


class PrivacyBudget(Rule):
    """Withholds the head that would take any deletion past a budget; reports what each has cost so far.

    It measures deletions in the noise of `PosteriorNoise` with the same sigma. In scope ``"always"`` every later
    head counts, as differential privacy has it: once a deletion has spent its budget, no head goes out again. In scope
    ``"run"`` the heads of the quiet run count: those after the deletion and before a change that no ``colluders``
    clients know (the deleting client's next change, or the change of one more client than that).

    The shift is measured once: to measure it again at later states the server would have to keep what was deleted.

    Parameters
    ----------
    sigma
        The noise's sigma.
    mu
        The budget of each deletion.
    scope
        ``"run"`` or ``"always"``.
    colluders
        How many clients may work together.
    serve_first
        Whether the first head without a block goes out whatever it costs. Withholding it would leave the deleted data
        in the public head.
    """

    name = "privacy-budget"
    about = "no head that takes what is told of a deletion past a budget"
    example: ClassVar[Mapping[str, Any]] = {"sigma": 0.2, "mu": 2.0}
    former_options: ClassVar[Mapping[str, str]] = {"collusion": "colluders"}
    stage = "budget"
    reads = "everyone"

    def __init__(
        self, sigma: float, mu: float, *, scope: str = "run", colluders: int = 1, serve_first: bool = True
    ) -> None:
        self.sigma, self.mu = positive("sigma", sigma), positive("mu", mu)
        if scope not in SCOPES:
            raise InputError("scope", " or ".join(SCOPES), f"'{scope}'")
        self.scope, self.colluders = scope, at_least("colluders", colluders, 1)
        self.serve_first = bool(serve_first)
        self._open: tuple[BudgetedDeletion, ...] = ()
        # With the count of heads when it was closed: what a closed one has cost follows without touching it again.
        self._closed: list[tuple[BudgetedDeletion, int]] = []
        self._heads = 0
        self._last = ""
        self._memo: tuple[Occasion, tuple[BudgetedDeletion, ...]] | None = None

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        names = ("sigma", "mu", "scope", "colluders", "serve_first")
        return {name: getattr(self, name) for name in names}

    @property
    def deletions(self) -> tuple[BudgetedDeletion, ...]:
        """All deletions so far, in order."""
        late = (replace(d, releases=d.releases + self._heads - since) for d, since in self._closed)
        return tuple(sorted((*late, *self._open), key=lambda d: d.number))

    def release(self, head: Head, occasion: Occasion) -> Head | None:
        """Pass the head if every deletion stays within its budget."""
        present = self._after(occasion)
        if self.serve_first and any(d.releases == 0 for d in present):
            return head
        if self.scope == "always":
            present += tuple(d for d in self.deletions if d.closed)
        else:
            present = tuple(d for d in present if not d.closed)
        return head if all(_released(d).total <= self.mu for d in present) else None

    def record(self, released: Head | None, occasion: Occasion) -> None:
        """Take up the occasion's deletions, and charge a new head to all."""
        present = self._after(occasion)
        self._memo = None
        if released is not None:
            digest = hashlib.blake2b(released.weights.tobytes(), digest_size=16).hexdigest()
            if digest != self._last:  # sticky noise: the same state again tells nothing new
                present = tuple(_released(d) for d in present)
                self._heads += 1
            self._last = digest
        # A deletion whose first head is still due stays, so that it is served.
        done = [d for d in present if d.closed and d.releases]
        self._closed += [(d, self._heads) for d in done]
        self._open = tuple(d for d in present if not (d.closed and d.releases))

    def _after(self, occasion: Occasion) -> tuple[BudgetedDeletion, ...]:
        """Return the open deletions with this occasion's changes and new ones, nothing released yet."""
        if self._memo is None or self._memo[0] is not occasion:
            moved = tuple(
                client
                for client, update in zip(occasion.clients, occasion.updates, strict=True)
                if not update.net.is_zero
            )
            known = tuple(self._moved(d, moved) for d in self._open)
            self._memo = occasion, known + self._new(occasion, moved)
        return self._memo[1]

    def _new(self, occasion: Occasion, moved: tuple[str, ...]) -> tuple[BudgetedDeletion, ...]:
        found = []
        for client, update in zip(occasion.clients, occasion.updates, strict=True):
            if not update.delete.is_zero:
                shift: Shift = shift_of_deletion(occasion.ledger, update.delete)
                made = BudgetedDeletion(occasion.counts.submissions, client, shift.mu(self.sigma))
                found.append(self._moved(made, tuple(other for other in moved if other != client)))
        return tuple(found)

    def _moved(self, deletion: BudgetedDeletion, clients: tuple[str, ...]) -> BudgetedDeletion:
        if deletion.closed or not clients:
            return deletion
        others = tuple(dict.fromkeys((*deletion.others, *(c for c in clients if c != deletion.client))))
        closed = deletion.client in clients or len(others) > self.colluders
        return replace(deletion, others=others, closed=closed)

    def remembered(self) -> Memory:
        """Return the deletions."""
        client_names(name for d in self.deletions for name in (d.client, *d.others))
        values = {
            "open": [asdict(d) for d in self._open],
            "closed": [[asdict(d), since] for d, since in self._closed],
            "heads": self._heads,
            "last": self._last,
        }
        return Memory(values)

    def restore(self, memory: Memory) -> None:
        """Take over the deletions."""
        values = memory.values
        self._open = tuple(_restored(d) for d in values["open"])
        self._closed = [(_restored(d), int(since)) for d, since in values["closed"]]
        self._heads, self._last = int(values["heads"]), str(values["last"])


def _restored(values: Mapping[str, Any]) -> BudgetedDeletion:
    return BudgetedDeletion(**{**values, "others": tuple(values["others"])})


def _released(deletion: BudgetedDeletion) -> BudgetedDeletion:
    return replace(deletion, releases=deletion.releases + 1, run=deletion.run + (not deletion.closed))


RULES = (PrivacyBudget,)
