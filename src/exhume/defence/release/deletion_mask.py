"""A mask on the totals that is drawn once per deletion: heads do not average it away until somebody deletes again.

Heads follow from masked totals: ``W = (A + M_A)^-1 (G + M_G)``. Additions go into the totals as they are; a deletion
brings a draw of its own,

    E_A = tau L (N + N') L' / sqrt(2),    E_G = E_A W + s L Z,

with N and Z standard normal, and with L and W the factor and the head of the masked totals as they were before it.
Whatever an attacker sends and however many heads it reads, it learns the masked totals, and (below) whether older parts
had to fade. That somebody deleted something shows. What it was is behind the draw: given the mask before, the masked
totals after a deletion of (P, Q) are Gaussian with a covariance that does not depend on (P, Q), but for the rare draw
that is taken again because it does not fit. The worlds with a deletion of (P, Q) and of nothing are

    mu^2 = |L^-1 P L^-T|_F^2 / (2 tau^2) + |L^-1 (Q - P W)|_F^2 / s^2

apart (mu-Gaussian privacy). The draw of the gram moves the head little, because E_G follows it: it blurs how the head
answers to later additions, which is what an attacker reads the gram from.

**Whose draw.** A client that deletes again gets a new draw in place of its last: what it can redraw at will is its own
part of the mask, and that tells it nothing of others'. Only the last ``colluders`` clients have a part of their own.
When one more deletes, the parts are folded into a common one, which fades by ``memory`` and gets a draw that nobody can
redraw: so the mask stays bounded. Whatever happens to older parts tells more of what they cover: a redraw another
whole mu^2, fading by a another ``(1 - a)^2``, to an attacker who knows every other change. `MaskedDeletion.total` has
the sum, about: it is in the measure of the deletion's own time, and in a ledger that has lost weight since (or whose
weight was an attacker's) later draws are smaller, and tell more. It has no limit: n folds make it sqrt(1 + n/4) mu.

**Large deletions.** A block that is more than `LARGE` of the masked gram, or moves the head more than the mask does (a
whole client, or what an attacker brought in to take out again), would leave noise far too large for what is left. It is
drawn in proportion to the totals after it and not hidden: its mu is infinite. Where older parts of others outweigh what
is left they fade, and a draw that nobody can redraw joins them. Whether they fade depends on the true totals: the
threshold is drawn anew, in secret, for every deletion, between the ends of `ROOM`, so that one such bit tells little.
An attacker who can steer the ledger to that edge again and again could add such bits up; the account does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

from exhume.defence.memory import Memory, client_names
from exhume.defence.release._base import Rule, at_least, positive
from exhume.defence.release._mask_parts import (
    FLOOR,
    ROOM,
    Mask,
    MaskedDeletion,
    Measure,
    Part,
    charged,
    fading_to_fit,
    fits,
    masked_ledger,
    masked_totals,
    which_are_small,
    with_blocks,
)
from exhume.defence.release._sticky import Sticky, as_key, keyed_generator
from exhume.errors import InputError, SingularStateError
from exhume.numerics import Matrix
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Occasion
from exhume.protocol.summary import Summary

__all__ = ["DeletionMask", "MaskedDeletion", "mask_growth"]

MOST_SPREAD = 0.8
"""Masks that spread further would make honest traffic fade."""

PURPOSE = "deletion_mask"
"""What the draws are seeded with beside key and state: another one would be another mask."""

ATTEMPTS = 50
"""Draws that are tried before a masked gram counts as beyond repair."""


def mask_growth(memory: float, colluders: int) -> float:
    """Return how many times a single draw the whole mask's standard deviation is, in the long run.

    The common part has variance ``v = memory^2 (v + colluders) + 1``, the parts of the last clients one each.
    """
    common = (1.0 + memory**2 * colluders) / (1.0 - memory**2)
    return math.sqrt(common + colluders)


class DeletionMask(Rule):
    """Releases the heads of masked totals; every deletion is behind a draw of its own, for any number of heads.

    Additions are not hidden, and a ledger that never saw a deletion has no mask. Rules after it in a chain see the
    masked ledger: noise in the shape of the true one would show that.

    Parameters
    ----------
    sigma
        Size of the whole mask in the head, in the long run: as `PosteriorNoise`, whose cost in accuracy it shares. A
        single deletion is behind ``sigma / mask_growth(memory, colluders)``.
    spread
        Size of the whole mask on the gram: the masked gram's eigenvalues relative to the true one's lie mostly within
        ``1 - spread`` and ``1 + spread``. Above 0 and below 0.8: more would make honest traffic fade.
    memory
        How much of the common part stays at a fold, from 0 to below 1.
    colluders
        How many clients may work together: so many have a part of their own.
    key
        The secret behind the draws (hexadecimal or bytes); made if not given.
    """

    name = "deletion-mask"
    about = "heads of masked totals, with a draw for every deletion"
    example: ClassVar[Mapping[str, Any]] = {"sigma": 0.2}
    former_options: ClassVar[Mapping[str, str]] = {"collusion": "colluders"}
    stage = "mask"

    def __init__(
        self,
        sigma: float,
        *,
        spread: float = 0.7,
        memory: float = 0.5,
        colluders: int = 1,
        key: str | bytes | None = None,
    ) -> None:
        self.sigma = positive("sigma", sigma)
        if not 0 < spread < MOST_SPREAD:
            raise InputError("spread", f"above 0 and below {MOST_SPREAD}", spread)
        if not 0 <= memory < 1:
            raise InputError("memory", "from 0 to below 1", memory)
        self.spread, self.memory = float(spread), float(memory)
        self.colluders = at_least("colluders", colluders, 1)
        self._key = as_key(key)
        self._sticky = Sticky(self._key, PURPOSE)
        self._mask = Mask()
        self._memo: tuple[Occasion, Mask, Occasion] | None = None

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments but the key, which is kept with the state."""
        return {name: getattr(self, name) for name in ("sigma", "spread", "memory", "colluders")}

    @property
    def deletions(self) -> tuple[MaskedDeletion, ...]:
        """All deletions so far, in order, with what the heads tell of each."""
        return self._mask.deletions

    def deletion_noise(self, d: int) -> tuple[float, float]:
        """Return the noise of one deletion's draw: s of the head, tau of the gram."""
        growth = mask_growth(self.memory, self.colluders)
        # A symmetric d x d matrix of off-diagonal variance tau^2 has its spectrum within 2 tau sqrt(d).
        return self.sigma / growth, self.spread / (2.0 * math.sqrt(d)) / growth

    def masked_totals(self, ledger: Ledger) -> tuple[Matrix, Matrix]:
        """Return the masked ``A`` and ``G`` of the present state: all that heads can tell, for the evaluator."""
        found = masked_totals(ledger, self._mask.whole)
        return found.gram, found.moment

    def masked(self, occasion: Occasion) -> Occasion:
        """Return the occasion as later rules may see it: with the masked ledger."""
        return self._after(occasion)[1]

    def release(self, head: Head, occasion: Occasion) -> Head:
        """Return the head of the masked totals."""
        seen = self.masked(occasion)
        return head if seen is occasion else replace(head, weights=seen.ledger.head())

    def record(self, released: Head | None, occasion: Occasion) -> None:
        """Take up the occasion's deletions, whether or not a head went out."""
        self._mask = self._after(occasion)[0]
        self._memo = None

    def _after(self, occasion: Occasion) -> tuple[Mask, Occasion]:
        if self._memo is None or self._memo[0] is not occasion:
            pairs = zip(occasion.clients, occasion.updates, strict=True)
            deleted = [(client, update.delete) for client, update in pairs if not update.delete.is_zero]
            mask = self._drawn(occasion, deleted) if deleted else self._mask
            seen = occasion if mask.whole is None else replace(occasion, ledger=masked_ledger(occasion.ledger, mask))
            if not deleted and seen is not occasion:
                try:
                    seen.ledger.head()
                except SingularStateError:  # a negative "addition", where no admission rule refuses such
                    mask = self._drawn(occasion, [])
                    seen = replace(occasion, ledger=masked_ledger(occasion.ledger, mask))
            self._memo = occasion, mask, seen
        return self._memo[1], self._memo[2]

    def _drawn(self, occasion: Occasion, deleted: Sequence[tuple[str, Summary]]) -> Mask:
        """Return the mask with a draw for each deletion; tried again in the rare case that it does not fit."""
        bare = masked_totals(occasion.ledger, None)
        mask = self._mask
        for attempt in range(1, ATTEMPTS + 1):
            made = self._attempt(occasion, mask, deleted, bare)
            if made.whole is None or fits((1.0 - FLOOR), bare, made.whole):
                return made
            mask = replace(mask, draws=made.draws)
            if attempt % 5 == 0:
                mask = charged(mask.faded(0.5), 0.25)
        return Mask(deletions=tuple(replace(d, mu=math.inf) for d in made.deletions), draws=made.draws)

    def _attempt(self, occasion: Occasion, mask: Mask, deleted: Sequence[tuple[str, Summary]], bare: Part) -> Mask:
        s, tau = self.deletion_noise(occasion.ledger.d)
        state = self._sticky.digest(occasion.ledger)
        small = which_are_small(bare, mask.whole, [block for _, block in deleted], s)
        # Parts that are about to be drawn again are out: they shall neither make others fade nor shape the draws.
        again = {client for client, _ in mask.own} & {client for client, _ in deleted}
        mask = replace(mask, own=tuple((name, part) for name, part in mask.own if name not in again))
        # The measure of the draws: before the small deletions, after the large ones.
        base = with_blocks(bare, [block for (_, block), is_small in zip(deleted, small, strict=True) if is_small])
        fading = fading_to_fit(bare, mask.whole, self._room(mask.draws, state))
        if fading < 1.0:
            mask = mask.faded(fading)
        measure = Measure.of(base if mask.whole is None else base + mask.whole)
        if fading < 1.0:
            mask = charged(mask, (1.0 - fading) ** 2).joined(self._draw(mask.draws, state, measure))
        for (client, block), is_small in zip(deleted, small, strict=True):
            if client in again:
                mask = charged(mask, 1.0, client)
            elif len(mask.own) + len(again) >= self.colluders:
                mask = charged(mask.folded(self.memory), (1.0 - self.memory) ** 2)
                mask = mask.joined(self._draw(mask.draws, state, measure))
            part = self._draw(mask.draws, state, measure)
            gram, moment = measure.sizes(block)
            mu = math.sqrt(gram**2 / (2.0 * tau**2) + moment**2 / s**2) if is_small else math.inf
            made = MaskedDeletion(occasion.counts.submissions, client, mu)
            own = (*((name, p) for name, p in mask.own if name != client), (client, part))
            mask = replace(mask, own=own, deletions=(*mask.deletions, made), draws=mask.draws + 1)
        return mask

    def _room(self, number: int, state: bytes) -> float:
        rng = keyed_generator(self._key, PURPOSE, b"room" + number.to_bytes(8, "little") + state)
        return float(rng.uniform(*ROOM))

    def _draw(self, number: int, state: bytes, measure: Measure) -> Part:
        d, c = measure.head.shape
        s, tau = self.deletion_noise(d)
        # The state is in the seed, so that a server set back to an old copy does not repeat a draw.
        rng = keyed_generator(self._key, PURPOSE, number.to_bytes(8, "little") + state)
        moment = s * (measure.factor @ rng.standard_normal((d, c)))
        gram = tau * measure.coloured(rng.standard_normal((d, d)))
        return Part(gram, moment + gram @ measure.head)

    def remembered(self) -> Memory:
        """Return the mask and its key. Whoever has them can take the mask off again."""
        client_names(d.client for d in self._mask.deletions)
        parts = {"common": self._mask.common, **{f"own{i}": part for i, (_, part) in enumerate(self._mask.own)}}
        arrays: dict[str, Matrix] = {}
        for name, part in parts.items():
            if part is not None:
                arrays |= {f"{name}.gram": part.gram, f"{name}.moment": part.moment}
        values = {
            "key": self._key.hex(),
            "own": [client for client, _ in self._mask.own],
            "deletions": [asdict(d) for d in self._mask.deletions],
            "draws": self._mask.draws,
        }
        return Memory(values, arrays)

    def restore(self, memory: Memory) -> None:
        """Take over the mask and its key."""
        values, arrays = memory.values, memory.arrays

        def part(name: str) -> Part:
            return Part(arrays[f"{name}.gram"], arrays[f"{name}.moment"])

        mask = Mask(
            part("common") if "common.gram" in arrays else None,
            tuple((client, part(f"own{i}")) for i, client in enumerate(values["own"])),
            tuple(MaskedDeletion(**d) for d in values["deletions"]),
            int(values["draws"]),
        )
        self._key = as_key(str(values["key"]))
        self._sticky = Sticky(self._key, PURPOSE)
        self._mask, self._memo = mask, None


RULES = (DeletionMask,)
