"""The state of a deletion mask: its parts, the measure of a draw, what fits, and the account of deletions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_solve, cholesky, eigvalsh, solve_triangular
from scipy.linalg.blas import dtrmm

from exhume.defence.privacy import as_record
from exhume.defence.release._evaluator import DeletionAccount
from exhume.numerics import Matrix
from exhume.protocol.ledger import Ledger
from exhume.protocol.summary import Summary

__all__ = [
    "FLOOR",
    "ROOM",
    "Mask",
    "MaskedDeletion",
    "Measure",
    "Part",
    "charged",
    "fading_to_fit",
    "fits",
    "masked_ledger",
    "masked_totals",
    "which_are_small",
    "with_blocks",
]

LARGE = 0.5
"""A block whose whitened gram is larger than this is not hidden."""

ROOM = (0.65, 0.9)
"""How much of what is left older parts of the mask may take away before they fade: the ends of a secret threshold."""

FLOOR = 0.05
"""Least eigenvalue of the masked gram relative to the true one."""


@dataclass(frozen=True)
class MaskedDeletion(DeletionAccount):
    """One deletion and what the masked totals tell of it. Of the deleted data one number is kept.

    Its mu is that of the masked totals right after it, and of a quiet run of any length: further heads tell nothing
    that the masked totals do not.
    """

    later: float = 0.0
    """What redraws, folds and fading have told since, as a multiple of mu squared."""

    @property
    def total(self) -> float:
        """The mu of everything since, for an attacker who knows all other changes, if the ledger kept its weight."""
        return self.mu * math.sqrt(1.0 + self.later)


@dataclass(frozen=True, eq=False)
class Part:
    """A gram and a moment: a part of the mask, or masked totals."""

    gram: Matrix
    moment: Matrix

    def __add__(self, other: Part | Summary) -> Part:
        return Part(self.gram + other.gram, self.moment + other.moment)

    def times(self, factor: float) -> Part:
        return Part(factor * self.gram, factor * self.moment)


@dataclass(frozen=True, eq=False)
class Measure:
    """Masked totals as a measure: the factor and the head."""

    factor: Matrix
    head: Matrix

    @classmethod
    def of(cls, totals: Part) -> Measure:
        factor = cholesky(totals.gram, lower=True)
        return cls(factor, cho_solve((factor, True), totals.moment))

    def sizes(self, block: Summary) -> tuple[float, float]:
        """Return the sizes of a block's gram, and of its moment about the head."""
        moved = solve_triangular(self.factor, block.moment - block.gram @ self.head, lower=True)
        record = as_record(block.gram)
        if record is not None:
            gram = float(np.sum(solve_triangular(self.factor, record, lower=True) ** 2))
        else:
            half = solve_triangular(self.factor, block.gram, lower=True)
            gram = float(np.linalg.norm(solve_triangular(self.factor, half.T, lower=True)))
        return gram, float(np.linalg.norm(moved))

    def coloured(self, white: Matrix) -> Matrix:
        """Return ``L (N + N') L' / sqrt(2)`` of a standard normal N."""
        half = dtrmm(math.sqrt(0.5), self.factor, white, lower=1)
        made = dtrmm(1.0, self.factor, half, side=1, lower=1, trans_a=1)
        return np.asarray(made + made.T)


@dataclass(frozen=True, eq=False)
class Mask:
    """The whole mask: the common part, the last clients' own, and the account of the deletions."""

    common: Part | None = None
    own: tuple[tuple[str, Part], ...] = ()
    deletions: tuple[MaskedDeletion, ...] = ()
    draws: int = 0

    @property
    def whole(self) -> Part | None:
        parts = [part for part in (self.common, *(part for _, part in self.own)) if part is not None]
        return sum(parts[1:], parts[0]) if parts else None

    def faded(self, factor: float) -> Mask:
        common = None if self.common is None else self.common.times(factor)
        return replace(self, common=common, own=tuple((name, part.times(factor)) for name, part in self.own))

    def folded(self, factor: float) -> Mask:
        """Return it with all parts in the common one, faded."""
        whole = self.whole
        return replace(self, common=None if whole is None else whole.times(factor), own=())

    def joined(self, part: Part) -> Mask:
        """Return it with a draw that nobody can redraw."""
        return replace(self, common=part if self.common is None else self.common + part, draws=self.draws + 1)


def masked_totals(ledger: Ledger, mask: Part | None) -> Part:
    total = ledger.summary
    gram, moment = np.array(total.gram), np.array(total.moment)
    gram.flat[:: ledger.d + 1] += ledger.gamma
    return Part(gram, moment) if mask is None else Part(gram, moment) + mask


def masked_ledger(ledger: Ledger, mask: Mask) -> Ledger:
    whole, total = mask.whole, ledger.summary
    assert whole is not None
    return Ledger(Summary(total.gram + whole.gram, total.moment + whole.moment), ledger.gamma)


def with_blocks(totals: Part, blocks: Sequence[Summary]) -> Part:
    for block in blocks:
        totals = totals + block
    return totals


def fits(share: float, left: Part, drawn: Part) -> bool:
    """Say whether parts of a mask take away less than a share of what is left, in every direction."""
    try:
        cholesky(share * left.gram + drawn.gram, lower=True)
    except np.linalg.LinAlgError:
        return False
    return True


def fading_to_fit(left: Part, drawn: Part | None, room: float) -> float:
    """Return by how much the parts of a mask must fade to fit what is left."""
    if drawn is None or fits(room, left, drawn):
        return 1.0
    least = float(eigvalsh(drawn.gram, left.gram, subset_by_index=[0, 0])[0])
    return 2.0 ** math.floor(math.log2(room / max(-least, room)) - 1e-6)


def which_are_small(bare: Part, drawn: Part | None, blocks: Sequence[Summary], s: float) -> list[bool]:
    """Say of each block whether it is small against the masked totals with all of them, and not too many are."""
    if not blocks:
        return []
    before = with_blocks(bare if drawn is None else bare + drawn, blocks)
    try:
        measure = Measure.of(before)
    except np.linalg.LinAlgError:
        return [False] * len(blocks)
    sizes = [measure.sizes(block) for block in blocks]
    noise = s * math.sqrt(before.moment.size)
    small = [gram <= LARGE and moment <= noise for gram, moment in sizes]
    for i in sorted(range(len(blocks)), key=lambda i: -sizes[i][0]):
        if sum(gram for (gram, _), is_small in zip(sizes, small, strict=True) if is_small) <= LARGE:
            break
        small[i] = False
    return small


def charged(mask: Mask, share: float, client: str | None = None) -> Mask:
    """Return the mask with an event charged to all deletions, or to those of a client."""
    told = (replace(d, later=d.later + share) if client in (None, d.client) else d for d in mask.deletions)
    return replace(mask, deletions=tuple(told))
