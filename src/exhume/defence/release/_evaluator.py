"""What an evaluator may ask of a release rule, whoever wrote the rule: masked totals, and what each deletion cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from exhume.defence.privacy import advantage, epsilon_of
from exhume.numerics import Matrix
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Occasion, ReleaseRule

__all__ = [
    "DeletionAccount",
    "EventTally",
    "KeepsAccounts",
    "KeepsTallies",
    "Masking",
    "accounts_of",
    "mask_of",
    "rules_of",
]


@runtime_checkable
class Masking(Protocol):
    """What a rule of the stage ``mask`` answers: its heads follow from other totals than the true ones."""

    def masked(self, occasion: Occasion) -> Occasion:
        """Return the occasion as rules after it may see it: with the masked ledger."""

    def masked_totals(self, ledger: Ledger) -> tuple[Matrix, Matrix]:
        """Return the masked ``A`` and ``G`` of the present state: all that heads can tell."""

    def deletion_noise(self, d: int) -> tuple[float, float]:
        """Return the noise that one deletion is behind: s of the head, tau of the gram."""


@dataclass(frozen=True)
class DeletionAccount:
    """One deletion, and what the heads since tell of it in Gaussian privacy. Of the data only numbers are kept."""

    number: int
    """The logical submission that brought it."""
    client: str
    mu: float
    """What one release tells of it, measured at the first state without it; infinite if it is not hidden."""

    @property
    def in_run(self) -> float:
        """The mu of the releases of the quiet run after it."""
        return self.mu

    @property
    def total(self) -> float:
        """The mu of all releases since, for an attacker who knows all other data."""
        return self.mu

    def as_one(self) -> DeletionAccount:
        """Return the account for whoever asks about all that was deleted, not about each record of it."""
        return self

    def looks(self) -> dict[str, float]:
        """Return every mu that has figures, by name: of one release, of the quiet run, of all releases."""
        return {"release": self.mu, "run": self.in_run, "total": self.total}

    def figures(self, delta: float = 1e-5) -> dict[str, float]:
        """Return the mu, best advantage and epsilon of each of `looks`."""
        found: dict[str, float] = {}
        for name, mu in self.looks().items():
            epsilon = epsilon_of(mu, delta) if math.isfinite(mu) else math.inf
            found |= {f"mu_{name}": mu, f"advantage_{name}": advantage(mu), f"epsilon_{name}": epsilon}
        return found


@runtime_checkable
class KeepsAccounts(Protocol):
    """A rule that keeps account of what each deletion has cost."""

    @property
    def deletions(self) -> tuple[DeletionAccount, ...]:
        """The deletions so far, in order: all, or the newest where the rule keeps no more."""


@dataclass(frozen=True)
class EventTally:
    """All events of a kind in a few numbers, those too that are no longer kept one by one."""

    events: int = 0
    mu: float = 0.0
    """The largest figure of all."""
    block: float = 0.0
    """The largest of a whole block."""


@runtime_checkable
class KeepsTallies(Protocol):
    """A rule that keeps the newest events one by one, and a tally of all."""

    @property
    def tallies(self) -> dict[str, EventTally]:
        """How many events of each kind there were, by the kind's name."""


def rules_of(release: ReleaseRule | None) -> tuple[ReleaseRule, ...]:
    """Return the rules that a server's release is made of: those of a chain, or the one rule."""
    return () if release is None else tuple(getattr(release, "rules", (release,)))


def mask_of(release: ReleaseRule | None) -> Masking | None:
    """Return the mask among a server's release rules, if there is one."""
    found = (rule for rule in rules_of(release) if getattr(rule, "stage", None) == "mask")
    return next((rule for rule in found if isinstance(rule, Masking)), None)


def accounts_of(release: ReleaseRule | None) -> tuple[KeepsAccounts, ...]:
    """Return those of a server's release rules that keep account of what each deletion has cost."""
    return tuple(rule for rule in rules_of(release) if isinstance(rule, KeepsAccounts))
