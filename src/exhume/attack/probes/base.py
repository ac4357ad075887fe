"""What a probe is, and how moment-only changes are made of add/delete pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from exhume.attack._linalg import Matrix
from exhume.errors import InputError
from exhume.protocol.summary import Summary, Update

__all__ = ["Mode", "MomentProbe", "Probe", "Step", "as_mode", "moment_update"]

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


def moment_update(moment: Matrix) -> Update:
    """Realise a moment change by add/delete pairs with zero net gram (Lemma 1).

    For each column q_k, add the summary of the row (q_k / 2, e_k) and delete that of (-q_k / 2, e_k): each submitted
    gram is positive semidefinite, each submitted moment has one-hot form.
    """
    half = 0.5 * moment
    add = Summary.of(half.T, np.arange(half.shape[1]), half.shape[1])
    pairs = int(np.count_nonzero(moment.any(axis=0)))
    return Update(add, add.with_moment(-add.moment), pairs=max(pairs, 1))


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
        return moment_update(-total.moment)

    def __repr__(self) -> str:
        d, c = self.totals[0].shape
        return f"{self.name}(d={d}, c={c}, m={self.responses}, mode='{self.mode}')"
