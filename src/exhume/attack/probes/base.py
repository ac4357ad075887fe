"""What a probe is, and how moment-only changes are made of add/delete pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from exhume.attack._line import line
from exhume.attack.coordinates import Coordinates
from exhume.errors import InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.summary import Summary, Update

__all__ = [
    "Mode",
    "MomentProbe",
    "Probe",
    "ProbeEntry",
    "Resources",
    "Step",
    "as_mode",
    "ballast_of",
    "check_scale",
    "check_sizes",
    "coordinates_of",
    "moment_pairs",
    "moment_update",
    "taking_back",
]

Mode = Literal["cumulative", "restored"]


@dataclass(frozen=True)
class Step:
    """One submission of a probe; ``listen`` says whether its response belongs to the stacks."""

    update: Update
    listen: bool = True


class Probe(Protocol):
    """A named plan: steps to submit one after another, and one update that takes all of them back."""

    @property
    def name(self) -> str:
        """The probe's registered name."""
        ...

    @property
    def responses(self) -> int:
        """How many responses go into the stacks."""
        ...

    def steps(self) -> Iterator[Step]:
        """Yield the submissions in order."""
        ...

    def cancel(self, total: Summary, sent: int) -> Update:
        """Return the update that takes back the total accumulated by the first ``sent`` steps."""
        ...


@dataclass(frozen=True, repr=False)
class Resources:
    """What a malicious client has to make a probe of: the public sizes, its own rows, a source of randomness."""

    d: int
    c: int
    features: Matrix
    labels: Rows
    rng: np.random.Generator
    scale: float = 1e4
    responses: int | None = None

    def __post_init__(self) -> None:
        check_sizes(self.d, self.c)
        check_scale(self.scale)
        if self.features.shape != (len(self.labels), self.d):
            allowed = f"{len(self.labels)} x {self.d}, a row a label"
            raise InputError("features", allowed, f"shape {self.features.shape}")
        if self.responses is not None and self.responses < 1:
            raise InputError("responses", "at least 1", self.responses)

    def __repr__(self) -> str:
        return line(self, d=self.d, c=self.c, rows=len(self.features), scale=self.scale, responses=self.responses)


@dataclass(frozen=True)
class ProbeEntry:
    """One entry of the registry.

    Attributes
    ----------
    name, about
        Name, and one line for people that may use ``{scale:g}``.
    build
        From the attacker's `Resources` to the probe.
    live
        Whether it needs no rows of the attacker's own, so that an operator can point it at a live server.
    few_rows
        Whether a look at some of the attacker's own rows is enough to build it.
    stands
        Whether it has a ballast (`ballast_of`), which stands while its state is used: nothing for a live server.
    """

    name: str
    about: str
    build: Callable[[Resources], Probe]
    live: bool = False
    few_rows: bool = False
    stands: bool = False


def coordinates_of(probe: Probe) -> Coordinates | None:
    """Return what a probe can speak of; None where it does not say, and that is every coordinate."""
    found: Coordinates | None = getattr(probe, "coordinates", None)
    return found


def ballast_of(probe: Probe) -> Summary | None:
    """Return what a probe wants to stand in the ledger while its state is used; None for most."""
    found: Summary | None = getattr(probe, "ballast", None)
    return found


def moment_pairs(moment: Matrix) -> tuple[Matrix, Rows]:
    """Return the made-up rows behind a moment change (Lemma 1): ``q_k / 2`` of class k, deleted as its negative."""
    half: Matrix = 0.5 * np.ascontiguousarray(moment.T)
    return half, np.arange(len(half))


def moment_update(moment: Matrix) -> Update:
    """Realise a moment change by add/delete pairs with zero net gram (Lemma 1).

    For each column q_k, add the summary of the row (q_k / 2, e_k) and delete that of (-q_k / 2, e_k): each submitted
    gram is positive semidefinite, each submitted moment has one-hot form.
    """
    half, labels = moment_pairs(moment)
    add = Summary.of(half, labels, len(half))
    pairs = int(np.count_nonzero((half != 0.0).any(axis=1)))
    return Update(add, add.with_moment(-add.moment), pairs=max(pairs, 1))


def taking_back(total: Summary) -> Update:
    """Return the update that removes a net total; a moment-only one by pairs that leave the gram alone (Lemma 1)."""
    return moment_update(-total.moment) if total.gram_is_zero else Update.deleting(total)


def check_sizes(d: Any, c: Any) -> None:
    """Refuse sizes that no head has."""
    if not (isinstance(d, int | np.integer) and isinstance(c, int | np.integer) and d >= 1 and c >= 1):
        raise InputError("d, c", "at least 1, and whole numbers", (d, c))


def check_scale(scale: Any, field: str = "scale") -> None:
    """Refuse a scale that no probe can have."""
    if isinstance(scale, bool) or not (
        isinstance(scale, int | float | np.number) and math.isfinite(scale) and scale > 0
    ):
        raise InputError(field, "a finite number above 0", repr(scale) if isinstance(scale, str) else scale)


def as_mode(mode: str) -> Mode:
    """Return a probing mode by its name."""
    if mode not in ("cumulative", "restored"):
        raise InputError("mode", "'cumulative' or 'restored'", f"'{mode}'")
    return "cumulative" if mode == "cumulative" else "restored"


@dataclass(frozen=True)
class MomentProbe:
    """Moment-only probe given by its target totals ``Q_1 ... Q_m``.

    In cumulative mode step j submits ``Q_j - Q_(j-1)``; in restored mode it submits ``Q_j`` and takes it back before
    the next (a response that is not used). Either way one cancellation of the remaining total ends the sequence.
    """

    name: str
    totals: Sequence[Matrix]
    mode: Mode = "cumulative"
    coordinates: Coordinates | None = None
    """What it can speak of; None where that is every coordinate."""

    @property
    def responses(self) -> int:
        """How many responses go into the stacks."""
        return len(self.totals)

    def steps(self) -> Iterator[Step]:
        """Yield the submissions in order."""
        standing = np.zeros_like(self.totals[0])
        for j, total in enumerate(self.totals):
            if self.mode == "restored" and j:
                yield Step(moment_update(-standing), listen=False)
                standing = np.zeros_like(standing)
            yield Step(moment_update(total - standing))
            standing = total

    def cancel(self, total: Summary, sent: int) -> Update:
        """Return the update that takes the accumulated moment back."""
        return taking_back(total)

    def __repr__(self) -> str:
        d, c = self.totals[0].shape
        return f"{self.name}(d={d}, c={c}, m={self.responses}, mode='{self.mode}')"
