"""A mask on the totals that is drawn once per deletion, so that no number of heads averages it away.

Heads follow from masked totals: ``W = (A + M_A)^-1 (G + M_G)``. Additions go into the totals as they are; a deletion
brings a draw of its own,

    E_A = tau L (N + N') L' / sqrt(2),    E_G = E_A W + s L Z,

with N and Z standard normal, and with L and W the factor and the head of the masked totals as they were before it.
Whatever an attacker sends and however many heads it reads, it learns the masked totals and nothing more. Given those
before a deletion of (P, Q), those after it are Gaussian with a covariance that does not depend on (P, Q): the two
worlds with and without it are exactly

    mu^2 = |L^-1 P L^-T|_F^2 / (2 tau^2) + |L^-1 (Q - P W)|_F^2 / s^2

apart (mu-Gaussian privacy). The draw of the gram costs no accuracy at first order, because E_G follows it: it blurs how
the head answers to later additions, which is what an attacker reads the gram from.

**Echo.** Where a record weighs much (few rows for so many features), its gram stands out of any noise that leaves the
masked gram positive. With ``echo`` the gram that heads follow from keeps the deleted rows, with the labels that the
head after the deletion gives them: that head is the one without the rows, as always, and the masked gram does not move
at all. The price is that the server keeps the sum of deleted grams in its mask, and that they pull later heads towards
what was predicted for them when they left. To give them new labels later would undo the privacy: labels that follow
the true head show, through every swing that an attacker gives it, the rows that they belong to.

**Whose draw.** A client that deletes again gets a new draw in place of its last: what it can redraw at will is its own
part of the mask, and that tells it nothing of others'. Only the last ``collusion`` clients have a part of their own.
When one more deletes, the parts are folded into a common one, which fades by ``memory`` and gets a draw that nobody can
redraw: so the mask stays bounded. Each fold tells an attacker who knows all other changes another
``(1 - memory)^2`` of mu^2, and each redraw by the same client another whole (`MaskedDeletion.total`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, eigvalsh, solve_triangular

from exhume.defence._matrix import Matrix
from exhume.defence._state import pack, unpack
from exhume.defence.privacy import advantage, epsilon_of
from exhume.defence.release._base import Rule, at_least, positive
from exhume.defence.release._sticky import Sticky, as_key, keyed_generator
from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Occasion
from exhume.protocol.summary import Summary

__all__ = ["DeletionMask", "MaskedDeletion", "mask_growth"]

FLOOR = 0.2
"""Least eigenvalue of the masked gram relative to the true one."""


def mask_growth(memory: float, collusion: int) -> float:
    """Return how many times a single draw the whole mask's standard deviation is, in the long run.

    The common part has variance ``v = memory^2 (v + collusion) + 1``, the parts of the last clients one each.
    """
    common = (1.0 + memory**2 * collusion) / (1.0 - memory**2)
    return math.sqrt(common + collusion)


@dataclass(frozen=True)
class MaskedDeletion:
    """One deletion and what the masked totals tell of it. Of the deleted data one number is kept."""

    number: int
    """The logical submission that brought it."""
    client: str
    mu: float
    """What the masked totals right after it tell, whatever the number of heads."""
    redraws: int = 0
    """Later deletions of the same client while it had a part of its own."""
    folded: float = 0.0
    """Sum of ``(1 - fading)^2`` over later folds."""

    @property
    def total(self) -> float:
        """The mu of everything since, for an attacker who knows all other changes."""
        return self.mu * math.sqrt(1.0 + self.redraws + self.folded)

    def figures(self, delta: float = 1e-5) -> dict[str, float]:
        """Return the mu, best advantage and epsilon: of one release, of a quiet run of any length, of all since.

        The first two are the same: further heads of a run tell nothing that the first does not.
        """
        found: dict[str, float] = {}
        for name, mu in (("release", self.mu), ("run", self.mu), ("total", self.total)):
            found |= {f"mu_{name}": mu, f"advantage_{name}": advantage(mu), f"epsilon_{name}": epsilon_of(mu, delta)}
        return found


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of the mask: what is added to the gram and to the moment."""

    gram: Matrix
    moment: Matrix

    def __add__(self, other: _Part) -> _Part:
        return _Part(self.gram + other.gram, self.moment + other.moment)

    def times(self, factor: float) -> _Part:
        return _Part(factor * self.gram, factor * self.moment)


@dataclass(frozen=True, eq=False)
class _Mask:
    """The whole mask: the common part, the last clients' own, and the account of the deletions."""

    common: _Part | None = None
    own: tuple[tuple[str, _Part], ...] = ()
    echo: _Part | None = None
    """Deleted grams that heads still follow from, with the labels of the head after the deletion."""
    deletions: tuple[MaskedDeletion, ...] = ()
    draws: int = 0

    @property
    def whole(self) -> _Part | None:
        parts = [part for part in (self.echo, *self._drawn) if part is not None]
        return sum(parts[1:], parts[0]) if parts else None

    @property
    def _drawn(self) -> tuple[_Part | None, ...]:
        return self.common, *(part for _, part in self.own)

    def folded(self, fading: float) -> _Mask:
        """Return it with all drawn parts in the common one, faded."""
        drawn = [part for part in self._drawn if part is not None]
        common = sum(drawn[1:], drawn[0]).times(fading) if drawn else None
        later = tuple(replace(d, folded=d.folded + (1.0 - fading) ** 2) for d in self.deletions)
        return replace(self, common=common, own=(), deletions=later)


class DeletionMask(Rule):
    """Releases the heads of masked totals; every deletion is behind a draw of its own, for any number of heads.

    Additions are not hidden, and a ledger that never saw a deletion has no mask.

    Parameters
    ----------
    sigma
        Size of the whole mask in the head, in the long run: as `PosteriorNoise`, whose cost in accuracy it shares. A
        single deletion is behind ``sigma / mask_growth(memory, collusion)``.
    spread
        Size of the whole mask on the gram: the masked gram's eigenvalues relative to the true one's lie about within
        ``1 - spread`` and ``1 + spread``. Above 0 (with echo also 0) and below 1.
    memory
        How much of the common part stays at a fold, from 0 to below 1.
    collusion
        How many clients may work together: so many have a part of their own.
    echo
        Whether heads go on following from the deleted grams, with the labels of the head after the deletion.
    key
        The secret behind the draws (hexadecimal or bytes); made if not given.
    """

    name = "deletion_mask"
    stage = "mask"

    def __init__(
        self,
        sigma: float,
        *,
        spread: float = 0.6,
        memory: float = 0.5,
        collusion: int = 1,
        echo: bool = False,
        key: str | bytes | None = None,
    ) -> None:
        self.sigma = positive("sigma", sigma)
        for field, value in (("spread", spread), ("memory", memory)):
            if not 0 <= value < 1:
                raise InputError(field, "from 0 to below 1", value)
        if spread == 0 and not echo:
            raise InputError("spread", "above 0 unless echo is on: a gram without noise shows the deletion", spread)
        self.spread, self.memory = float(spread), float(memory)
        self.collusion = at_least("collusion", collusion, 1)
        self.echo = bool(echo)
        self._key = as_key(key)
        self._sticky = Sticky(self._key, self.name)
        self._mask = _Mask()
        self._memo: tuple[Occasion, _Mask] | None = None

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments but the key, which is kept with the state."""
        return {name: getattr(self, name) for name in ("sigma", "spread", "memory", "collusion", "echo")}

    @property
    def deletions(self) -> tuple[MaskedDeletion, ...]:
        """All deletions so far, in order, with what the heads tell of each."""
        return self._mask.deletions

    def single(self, d: int) -> tuple[float, float]:
        """Return the noise of one deletion's draw: s of the head, tau of the gram."""
        growth = mask_growth(self.memory, self.collusion)
        # A symmetric d x d matrix of off-diagonal variance tau^2 has its spectrum within 2 tau sqrt(d).
        return self.sigma / growth, self.spread / (2.0 * math.sqrt(d)) / growth

    def totals(self, ledger: Ledger) -> tuple[Matrix, Matrix]:
        """Return the masked ``A`` and ``G`` of the present state: all that heads can tell, for the evaluator."""
        return _masked(ledger, self._mask.whole)

    def release(self, head: Head, occasion: Occasion) -> Head:
        """Return the head of the masked totals."""
        whole = self._after(occasion).whole
        if whole is None:
            return head
        gram, moment = _masked(occasion.ledger, whole)
        return replace(head, weights=cho_solve((cholesky(gram, lower=True), True), moment))

    def record(self, released: Head | None, occasion: Occasion) -> None:
        """Take up the occasion's deletions, whether or not a head went out."""
        self._mask = self._after(occasion)
        self._memo = None

    def _after(self, occasion: Occasion) -> _Mask:
        if self._memo is None or self._memo[0] is not occasion:
            pairs = zip(occasion.clients, occasion.updates, strict=True)
            deleted = [(client, update.delete) for client, update in pairs if not update.delete.is_zero]
            self._memo = occasion, self._drawn(occasion, deleted) if deleted else self._mask
        return self._memo[1]

    def _drawn(self, occasion: Occasion, deleted: Sequence[tuple[str, Summary]]) -> _Mask:
        """Return the mask with a draw for each deletion, in proportion to the masked totals before them."""
        ledger, mask = occasion.ledger, self._mask
        gram, moment = _masked(ledger, mask.whole)
        for _, block in deleted:
            gram += block.gram
            moment += block.moment
        factor = cholesky(gram, lower=True)
        head = cho_solve((factor, True), moment)
        s, tau = self.single(ledger.d)
        state = self._sticky.digest(ledger)
        for client, block in deleted:
            if self.echo:
                mask = replace(mask, echo=_sum(mask.echo, _echo(factor, head, block)))
            had = client in dict(mask.own)
            if not had and len(mask.own) >= self.collusion:
                mask = mask.folded(self.memory)
                part = self._draw(mask.draws, state, factor, head)
                mask = replace(mask, common=_sum(mask.common, part), draws=mask.draws + 1)
            part = self._draw(mask.draws, state, factor, head)
            kept = tuple((name, p) for name, p in mask.own if name != client)
            seen = tuple(replace(d, redraws=d.redraws + (had and d.client == client)) for d in mask.deletions)
            mu = _distance(factor, head, block, s, tau, self.echo)
            made = MaskedDeletion(occasion.counts.submissions, client, mu)
            own, deletions = (*kept, (client, part)), (*seen, made)
            mask = replace(mask, own=own, deletions=deletions, draws=mask.draws + 1)
        return self._bounded(ledger, mask)

    def _draw(self, number: int, state: bytes, factor: Matrix, head: Matrix) -> _Part:
        d, c = head.shape
        s, tau = self.single(d)
        # The state is in the seed, so that a server set back to an old copy does not repeat a draw.
        rng = keyed_generator(self._key, self.name, number.to_bytes(8, "little") + state)
        moment = s * (factor @ rng.standard_normal((d, c)))
        if tau == 0.0:
            return _Part(np.zeros((d, d)), moment)
        white = rng.standard_normal((d, d))
        half = factor @ white @ factor.T
        gram: Matrix = (tau / math.sqrt(2.0)) * (half + half.T)
        return _Part(gram, moment + gram @ head)

    @staticmethod
    def _bounded(ledger: Ledger, mask: _Mask) -> _Mask:
        """Return the mask, or one scaled down where so much was deleted that it would outweigh what is left."""
        drawn = replace(mask, echo=None).whole
        assert drawn is not None
        true = _masked(ledger, mask.echo)[0]
        try:
            cholesky((1.0 - FLOOR) * true + drawn.gram, lower=True)
        except np.linalg.LinAlgError:
            least = float(eigvalsh(drawn.gram, true, subset_by_index=[0, 0])[0])
            # A power of two, so that the factor tells next to nothing of what is left.
            scale = 2.0 ** math.floor(math.log2((1.0 - FLOOR) / max(-least, 1.0 - FLOOR)) - 1e-6)
            now = mask.deletions[-1].number
            scaled = mask.folded(scale)
            kept = (
                replace(was, mu=was.mu / scale) if was.number == now else is_
                for was, is_ in zip(mask.deletions, scaled.deletions, strict=True)
            )
            return replace(scaled, deletions=tuple(kept))
        return mask

    def save(self) -> bytes:
        """Write the mask and its key. Whoever has them can take the mask off again: keep them as the ledger itself."""
        parts = {
            "common": self._mask.common,
            "echo": self._mask.echo,
            **{f"own{i}": part for i, (_, part) in enumerate(self._mask.own)},
        }
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
        return pack(self.name, self.configuration(), values, arrays)

    def load(self, data: bytes) -> None:
        """Take over a saved mask; one of another configuration is refused by name."""
        saved = unpack(data, self.name, self.configuration())
        values, arrays = saved.values, saved.arrays

        def part(name: str) -> _Part:
            return _Part(arrays[f"{name}.gram"], arrays[f"{name}.moment"])

        mask = _Mask(
            part("common") if "common.gram" in arrays else None,
            tuple((str(client), part(f"own{i}")) for i, client in enumerate(values["own"])),
            part("echo") if "echo.gram" in arrays else None,
            tuple(_restored(d) for d in values["deletions"]),
            int(values["draws"]),
        )
        self._key = as_key(str(values["key"]))
        self._sticky = Sticky(self._key, self.name)
        self._mask, self._memo = mask, None


def _restored(values: Mapping[str, Any]) -> MaskedDeletion:
    return MaskedDeletion(**values)


def _sum(one: _Part | None, other: _Part) -> _Part:
    return other if one is None else one + other


def _masked(ledger: Ledger, mask: _Part | None) -> tuple[Matrix, Matrix]:
    total = ledger.summary
    gram, moment = np.array(total.gram), np.array(total.moment)
    gram.flat[:: ledger.d + 1] += ledger.gamma
    if mask is not None:
        gram += mask.gram
        moment += mask.moment
    return gram, moment


def _without(factor: Matrix, head: Matrix, block: Summary) -> Matrix:
    """Return the head of the totals without a block, of which ``factor`` and ``head`` are those with it."""
    gap = block.moment - block.gram @ head
    without = factor @ factor.T - block.gram
    return head - cho_solve((cholesky(without, lower=True), True), gap)


def _echo(factor: Matrix, head: Matrix, block: Summary) -> _Part:
    return _Part(block.gram, block.gram @ _without(factor, head, block))


def _distance(factor: Matrix, head: Matrix, block: Summary, s: float, tau: float, echo: bool) -> float:
    """Return the mu between the masked totals with and without a block."""
    labels = _without(factor, head, block) if echo else head
    moved = solve_triangular(factor, block.moment - block.gram @ labels, lower=True)
    squared = float(np.vdot(moved, moved)) / s**2
    half = solve_triangular(factor, block.gram, lower=True)
    white = solve_triangular(factor, half.T, lower=True)
    size = 0.0 if echo else float(np.vdot(white, white))
    return math.sqrt(squared + (size / (2.0 * tau**2) if size else 0.0))
