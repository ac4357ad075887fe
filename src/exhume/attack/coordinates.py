"""The coordinates that a probe speaks of, and the units in which its stacks are well scaled.

A feature that is zero in all rows of the attacker's is dead to a probe made of them: every known right-hand side is
zero there. With ``A X = Z`` the live rows then satisfy ``(A_LL - A_LD A_DD^-1 A_DL) X_L = Z_L``: the run identifies
this Schur complement, the state of the same federation without the dead coordinates. Where these are zero in everybody
else's rows too, it is A itself; and a deleted record that is zero in them takes the same ``f f'`` from both. So
identification and recovery lose nothing by leaving them out.

Units are a change of scale per feature, ``f / t``: stacks of features of very different size are then of full rank
numerically as well as in theory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exhume.attack._line import line
from exhume.numerics import RANK_TOLERANCE, Matrix, Rows
from exhume.protocol.head import Head

__all__ = ["Coordinates", "schur"]

SPREAD = float(np.sqrt(1.0 / RANK_TOLERANCE))
"""Features are scaled where their mean squares differ by more: the state's condition number is at least that, and a
designed probe's stack spends as much of the rank tolerance on units alone."""


@dataclass(frozen=True, repr=False, eq=False)
class Coordinates:
    """The live ones of d coordinates, and a unit for each."""

    d: int
    live: Rows
    units: Matrix
    """One positive number for each live coordinate; all of them 1 where nothing is scaled."""

    @classmethod
    def of_rows(cls, features: Matrix) -> Coordinates | None:
        """Return the coordinates in which some rows are not all zero; None where these are all, or no row is there."""
        mask = features.any(axis=0)
        if mask.all() or not mask.any():
            return None
        live = np.flatnonzero(mask)
        return cls(features.shape[1], live, np.ones(len(live)))

    @classmethod
    def scaled_by(cls, features: Matrix) -> Coordinates | None:
        """Return all coordinates in units of the rows' root mean squares; None where these are much alike.

        A feature that is zero in all rows gets the smallest unit: nothing says that it is larger.
        """
        squares = np.square(features).sum(axis=0)
        seen = squares[squares > 0]
        if not len(seen) or seen.max() <= SPREAD * seen.min():
            return None
        units = np.sqrt(np.where(squares > 0, squares, seen.min()) / len(features))
        return cls(len(squares), np.arange(len(squares)), units)

    @property
    def whole(self) -> bool:
        """Whether no coordinate is dead."""
        return len(self.live) == self.d

    def head(self, head: Head) -> Head:
        """Return a head of the live coordinates alone, in these units."""
        return Head(head.weights[self.live] * self.units[:, None], head.precision, head.serial)

    def square(self, a: Matrix) -> Matrix:
        """Return a gram, or a guess of A, of the live coordinates alone, in these units."""
        return np.asarray(a[np.ix_(self.live, self.live)] / np.outer(self.units, self.units))

    def spread(self, rows: Matrix) -> Matrix:
        """Return live rows of a matrix among zero ones, d in all."""
        out = np.zeros((self.d, rows.shape[1]))
        out[self.live] = rows
        return out

    def spread_square(self, a: Matrix) -> Matrix:
        """Return a live square matrix within the identity, d x d."""
        out = np.eye(self.d)
        out[np.ix_(self.live, self.live)] = a
        return out

    def __repr__(self) -> str:
        scaled = None if np.ptp(self.units) == 0 else float(self.units.max() / self.units.min())
        return line(self, d=self.d, live=len(self.live), scaled=scaled)


def schur(A: Matrix, live: Rows) -> Matrix:
    """Return what A is to those who know only some coordinates: its Schur complement on them."""
    dead = np.setdiff1d(np.arange(len(A)), live)
    inner, cross = A[np.ix_(live, live)], A[np.ix_(live, dead)]
    return np.asarray(inner - cross @ np.linalg.solve(A[np.ix_(dead, dead)], cross.T))
