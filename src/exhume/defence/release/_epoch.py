"""One epoch of a continual release: a public measure, totals in its coordinates, and running sums of draws.

In coordinates that the measure ``M = B B'`` whitens and its head ``W`` centres, totals are ``T = B^-1 A B^-T`` and
``R = B^-1 (G - A W)``, noise is isotropic, and a draw is ``d (d + 1) / 2 + d c`` normals without a product. The gram
and its noise are packed triangles (`_packed`), from the sums of draws to the factor that the head is solved with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.linalg.blas import dger
from scipy.linalg.lapack import dpotrs, dpstrf, dtrtrs

from exhume.defence.release._factorisation import Factorisation
from exhume.defence.release._noisy_head import solve
from exhume.defence.release._packed import add_products, diagonal, identity, packed, size, unpacked, whole
from exhume.numerics import Matrix
from exhume.protocol.message import Batch
from exhume.protocol.summary import Summary

__all__ = ["GROWN", "Draws", "Epoch", "EpochMeasure", "NoisedEvent", "Totals"]

GROWN = 2.0
"""How many times the measure the noisy gram may be, on average over directions, before a new epoch begins."""

STEADY = 0.7
"""Spread of the noise on the gram beyond which heads follow from one that is drawn towards the measure."""

_RESCALED = 2.0**300

_LEFT = 1e-12
"""Relative size of what roundoff leaves of a gram beside its rows."""


@dataclass(frozen=True, eq=False)
class EpochMeasure:
    """What shapes the noise of an epoch: the factor of a gram, and a head."""

    factor: Matrix
    head: Matrix
    rows: float = field(init=False)
    """How many rows it surely stands for: ``|B' W 1|^2``.

    Labels are one-hot, so that ``A W 1`` is the sum of all features, and this the squared length of the constant
    vector's projection onto them: at most their number, and equal to it where a constant is a sum of features.
    """

    def __post_init__(self) -> None:
        # At once, and not by the first message that needs it: whose that is depends on what others sent.
        total = np.tril(self.factor).T @ self.head.sum(axis=1)
        object.__setattr__(self, "rows", float(total @ total))

    @classmethod
    def of(cls, gram: Matrix, moment: Matrix) -> EpochMeasure:
        """Return the measure of regularised totals."""
        factor = cholesky(gram, lower=True)
        return cls(factor, np.ascontiguousarray(dpotrs(factor, moment, lower=1)[0]))

    def moment(self, block: Summary) -> Matrix:
        """Return ``B^-1 (Q - P W)``."""
        moved, _ = dtrtrs(self.factor, block.moment - block.gram @ self.head, lower=1)
        return np.asarray(moved)

    def gram(self, gram: Matrix) -> Matrix:
        """Return ``B^-1 P B^-T``."""
        half = solve_triangular(self.factor, gram, lower=True, check_finite=False)
        return np.asarray(solve_triangular(self.factor, half.T, lower=True, check_finite=False))

    def white(self, rows: Matrix) -> Matrix:
        """Return ``B^-1 F'`` of rows F."""
        made, _ = dtrtrs(self.factor, np.asfortranarray(rows.T), lower=1)
        return np.asarray(made)

    def records(self, batch: Batch) -> tuple[Matrix, Matrix]:
        """Return rows, d x rows, and what multiplies each to make its moment, rows x c."""
        return self.white(batch.features), np.eye(self.head.shape[1])[batch.labels] - batch.features @ self.head

    def event(self, block: Summary) -> NoisedEvent:
        """Return a block in these coordinates."""
        rows = None
        if block.factor is not None and block.is_square and len(block.factor) <= max(block.d // 8, 1):
            rows = block.factor.T
        if rows is None or rows.shape[1] != 1:
            rows = _rows(block.gram, self.head[:, 0])
        if rows is None:
            return NoisedEvent(self.moment(block), dense=self.gram(block.gram))
        gap = block.moment - rows @ (rows.T @ self.head)
        white, _ = dtrtrs(self.factor, np.column_stack([rows, gap]), lower=1)
        return NoisedEvent(np.ascontiguousarray(white[:, rows.shape[1] :]), rows=white[:, : rows.shape[1]])

    def coloured(self, gram: Matrix, moment: Matrix) -> tuple[Matrix, Matrix]:
        """Return totals of these coordinates in their own: ``A`` and ``G``."""
        lower = np.tril(self.factor)
        A = lower @ gram @ lower.T
        return A, lower @ moment + A @ self.head

    def __deepcopy__(self, memo: object) -> EpochMeasure:
        return self  # never changed: a copy could not differ

    def back(self, white: Matrix) -> Matrix:
        """Return ``B^-T X``."""
        made, _ = dtrtrs(self.factor, white, lower=1, trans=1)
        return np.asarray(made)


@dataclass(frozen=True, eq=False)
class NoisedEvent:
    """A block in the measure's coordinates: its gram as that of a few rows, or dense."""

    moment: Matrix
    rows: Matrix | None = None
    """Columns whose products make the gram (d x rows)."""
    dense: Matrix | None = None
    share: float = 1.0
    """How much of it counts; below 1 where a cap cut it."""

    @property
    def single(self) -> bool:
        """Whether it is one record."""
        return self.rows is not None and self.rows.shape[1] == 1

    @property
    def sizes(self) -> tuple[float, float]:
        """The sizes of the gram and of the moment, uncut."""
        gram = self.dense if self.rows is None else self.rows.T @ self.rows
        return 0.0 if gram is None else float(np.linalg.norm(gram)), float(np.linalg.norm(self.moment))

    def add_to(self, gram: Matrix, sign: float) -> None:
        """Add the gram to a packed triangle, or take it away, in place."""
        if self.rows is not None:
            add_products(gram, self.rows, sign * self.share)
        elif self.dense is not None:
            gram += sign * self.share * packed(self.dense)


def _rows(gram: Matrix, probe: Matrix) -> Matrix | None:
    """Return columns whose products make a gram, where a few do, in time that hardly counts; else None.

    With f the gram's row at its largest diagonal entry, scaled, ``gram - f f'`` is a Schur complement: positive
    semidefinite if the gram is, and zero if its trace is. Where one is not enough, pivoted Cholesky finds more. A gram
    that is not positive semidefinite is found by its product with a probe.
    """
    d, diagonal = len(gram), np.diag(gram)
    top = int(np.argmax(diagonal))
    size, trace = float(diagonal[top]), float(diagonal.sum())
    if size <= 0.0:
        return None
    rows: Matrix = (gram[top] / math.sqrt(size))[:, None]
    if abs(trace - float(np.vdot(rows, rows))) > _LEFT * trace:
        factor, pivots, rank, _ = dpstrf(gram, tol=_LEFT * trace / d, lower=1)
        if rank > d // 8:
            return None
        rows = np.zeros((d, rank), order="F")
        rows[pivots - 1] = np.tril(factor)[:, :rank]
    gap = float(np.abs(gram @ probe - rows @ (rows.T @ probe)).max())
    return rows if gap <= 10.0 * _LEFT * trace * float(np.abs(probe).sum()) else None


@dataclass(eq=False)
class Totals:
    """Running totals in the measure's coordinates, with the noise that earlier epochs left in them."""

    gram: Matrix
    """A packed triangle."""
    moment: Matrix

    @classmethod
    def of_measure(cls, d: int, c: int) -> Totals:
        """Return the totals that are the measure itself."""
        return cls(identity(d), np.zeros((d, c)))

    def add(self, event: NoisedEvent, sign: float) -> None:
        """Take up one block."""
        event.add_to(self.gram, sign)
        self.moment = self.moment + sign * event.share * event.moment


class Draws:
    """Running sums of draws, one for each power of the factorisation: the noise on the totals is their mixture."""

    def __init__(self, factorisation: Factorisation, d: int, c: int) -> None:
        self.factorisation, self.d, self.c = factorisation, d, c
        self.sums: Matrix = np.zeros((len(factorisation.decays), size(d) + d * c))
        self.scales: Matrix = np.ones(len(factorisation.decays))
        """What each sum is to be multiplied by: decays touch these and not the sums."""
        self.events = 0

    def noise(self, draw: Matrix | None = None) -> Matrix:
        """Return the noise on the present totals, or on the next ones, given the draw of the event between."""
        f = self.factorisation
        if draw is None:
            return (f.weights * self.scales) @ self.sums
        noise: Matrix = (f.weights * self.scales * f.decays) @ self.sums
        noise += draw
        return noise

    def add(self, draw: Matrix) -> None:
        """Take up the draw of one event, in place."""
        self.scales = self.scales * self.factorisation.decays
        if 1.0 / self.scales.min() > _RESCALED:
            self.sums *= self.scales[:, None]
            self.scales = np.ones_like(self.scales)
        self.sums = dger(1.0, draw, 1.0 / self.scales, a=self.sums.T, overwrite_a=1).T
        self.events += 1

    def parts(self, noise: Matrix, s: float, tau: float) -> tuple[Matrix, Matrix]:
        """Return noise as a packed triangle of variance ``tau^2`` (twice that on the diagonal), and a moment's.

        The array is the caller's no more: it is scaled in place.
        """
        gram, moment = np.split(noise, [size(self.d)])
        gram *= tau
        gram[diagonal(self.d)] *= math.sqrt(2.0)
        moment *= s
        return gram, moment.reshape(self.d, self.c)

    @property
    def spent(self) -> bool:
        """Whether the next event is the last that it is made for."""
        return self.events + 1 >= self.factorisation.horizon

    def copy(self) -> Draws:
        """Return the same sums in arrays of their own."""
        return self.restored(self.factorisation, self.d, self.c, self.arrays())

    def arrays(self) -> dict[str, Matrix]:
        """Return it as arrays by name."""
        return {"draws.sums": self.sums, "draws.scales": self.scales, "draws.events": np.array([float(self.events)])}

    @classmethod
    def restored(cls, factorisation: Factorisation, d: int, c: int, arrays: Mapping[str, Matrix]) -> Draws:
        """Return what `arrays` was taken from."""
        made = cls(factorisation, d, c)
        made.sums, made.scales = np.array(arrays["draws.sums"]), np.array(arrays["draws.scales"])
        made.events = int(arrays["draws.events"][0])
        return made


@dataclass(frozen=True, eq=False)
class Epoch:
    """A measure, the totals in its coordinates, and the sums of draws."""

    measure: EpochMeasure
    totals: Totals
    draws: Draws
    left: float = 0.0
    """Squared spread of the noise that earlier epochs left on the gram, relative to the measure."""

    def arrays(self) -> dict[str, Matrix]:
        """Return all of it for a saved state, but horizon and spread, which are numbers."""
        measure, totals = self.measure, self.totals
        found = {"factor": np.tril(measure.factor), "head": measure.head, **self.draws.arrays()}
        return found | {"gram": np.tril(unpacked(totals.gram, len(totals.moment))), "moment": totals.moment}

    @classmethod
    def restored(cls, horizon: int, left: float, arrays: Mapping[str, Matrix]) -> Epoch:
        """Return it from a saved state."""
        d, c = arrays["moment"].shape
        return cls(
            EpochMeasure(np.asfortranarray(arrays["factor"]), np.array(arrays["head"])),
            Totals(packed(arrays["gram"]), np.array(arrays["moment"])),
            Draws.restored(Factorisation.of(horizon), d, c, arrays),
            left,
        )

    def steadied(self, gram: Matrix, spread: float) -> Matrix:
        """Return a noisy gram, drawn towards the measure where the noise of many epochs would spread it too far.

        How far it is drawn is public, and so is what is drawn: it tells nothing. In a first epoch nothing is.
        """
        share = max(spread, STEADY) / math.sqrt(self.left + spread**2)
        if share < 1.0:
            gram = share * gram
            gram[diagonal(len(self.measure.head))] += 1.0 - share
        return gram

    def noisy(
        self, s: float, tau: float, draw: Matrix | None = None, blocks: Sequence[tuple[NoisedEvent, float]] = ()
    ) -> tuple[Matrix, Matrix]:
        """Return the noisy totals, now or after an event of some blocks and a draw: a packed triangle, and a moment."""
        gram, moment = self.draws.parts(self.draws.noise(draw), s, tau)
        gram += self.totals.gram
        moment += self.totals.moment
        for block, sign in blocks:
            block.add_to(gram, sign)
            moment += sign * block.share * block.moment
        return gram, moment

    def turned(self, s: float, tau: float, *, grows: bool) -> Epoch:
        """Return the next epoch: the noise so far stays in the totals.

        It is made for twice as many events, so that whoever spends events turns few epochs. Measure and head stay, so
        that no record's figure is another one in it. Where the measure ``grows``, it takes up what the totals have
        grown by, and is no smaller in any direction; moments are then about the present public head.
        """
        noisy, moment = self.noisy(s, tau)
        f, d = self.draws.factorisation, self.draws.d
        draws = Draws(Factorisation.of(2 * f.horizon), d, self.draws.c)
        left = self.left + (2.0 * math.sqrt(d) * tau * f.growth(self.draws.events)) ** 2
        if not grows:
            return Epoch(self.measure, Totals(noisy, moment), draws, left)
        gram, old = whole(noisy, d), self.measure
        steady = self.steadied(noisy, 2.0 * math.sqrt(d) * tau * f.largest)
        solved, _ = solve(steady.copy(), moment, lambda: steady)
        measure = EpochMeasure(old.factor, np.ascontiguousarray(old.head + old.back(solved)))
        moment = moment - gram @ solved
        if float(np.trace(gram)) >= GROWN * d:
            left /= (float(np.trace(gram)) / d) ** 2
            values, vectors = eigh(gram)
            root = old.factor @ (vectors * np.sqrt(np.maximum(values, 1.0)))
            measure = EpochMeasure(cholesky(root @ root.T, lower=True), measure.head)
            gram = measure.gram(old.factor @ gram @ old.factor.T)
            moment = solve_triangular(measure.factor, old.factor @ moment, lower=True)
        return Epoch(measure, Totals(packed(gram), np.ascontiguousarray(moment)), draws, left)
