"""What float64 may have lost of a ledger's totals, as a bound, and what that can mean for its head.

**What is bounded.** Let ``S*`` and ``G*`` be the exact sums of all matrices that came in updates, those deleted with a
minus sign, on top of the totals that the ledger started from. `Lost` bounds ``|S - S*|_F`` and ``|G - G*|_F``. How each
client rounded when it summed its own rows is not in it: the ledger sees the matrices, not the rows.

**Proof.** A sum or difference in float64 is off by at most u = 2**-53 times its result. A change ``S' = S + N`` with
``N = S+ - S-`` therefore adds at most ``u |S'|_F`` to the error of the gram, and ``u |N|_F`` more where both sides
of the update are non-zero. ``A' = S' + gamma I`` is positive definite (else the update is refused), so that
``|A'|_F <= trace A'`` and ``|S'|_F <= trace S' + (d + sqrt(d)) gamma``. ``|N|_F`` is at most the sum of its magnitudes,
and at most the bounds of ``|S|_F`` and ``|S'|_F`` together. Summing the K messages of a round first adds at most
``(K - 1) u`` times the sizes of all of them. A gram that comes as a factor of r rows is written out by sums of r
products, off by at most ``r u`` times the squared lengths of its rows; changes that wait for a new factor are written
out together, r being all their rows. Norms of moments are taken as they are. Errors add up over the history:
the largest trace that the ledger ever had, times u, is in the sum, so a giant that came and went is never forgotten.
The factor `_ROUNDED` covers that these bounds are computed in float64 themselves.

**The head.** From ``A W = G`` and ``A* W* = G*`` follows ``A* (W - W*) = (A* - A) W + (G - G*)``, hence
``|W - W*|_F <= (|S - S*| |W|_F + |G - G*|) / l`` with ``l`` the smallest eigenvalue of ``A*``: at least gamma where the
retained rows are an honest sum, and at least that of A less ``|S - S*|``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exhume.numerics import Matrix
from exhume.protocol.summary import Update

__all__ = ["TOLERANCE", "Drift", "Lost"]

TOLERANCE = 0.01
"""Share of the head that may be lost before retraining is due: a choice, not a law."""

_ROUNDED = 1.01 * 2.0**-53


@dataclass(frozen=True)
class Lost:
    """Bounds on what rounding took from the totals, in the Frobenius norm."""

    gram: float = 0.0
    moment: float = 0.0

    @classmethod
    def rounding(cls, gram: float, moment: float) -> Lost:
        """Return what one rounding of matrices of these sizes can take."""
        return cls(_ROUNDED * gram, _ROUNDED * moment)

    @classmethod
    def by_update(cls, update: Update, traces: tuple[float, float], moment: Matrix, rows: int = 0) -> Lost:
        """Return what totals can lose when an update goes in.

        Parameters
        ----------
        update
            The update.
        traces
            Bounds on the norm of the gram before it and after it.
        moment
            The moment after it.
        rows
            How many rows of changes are written out together, where that is more than the update's own.
        """
        net, one_sided = update.net, update.add.is_zero or update.delete.is_zero
        inside = 0.0 if one_sided else min(net.magnitudes[0], sum(traces))
        gram = 0.0 if net.gram_is_zero else traces[1] + inside
        if net.is_factored:
            gram += max(net.rank, rows) * net.magnitudes[0]
        size = float(np.linalg.norm(moment)) + (0.0 if one_sided else float(np.linalg.norm(net.moment)))
        return cls.rounding(gram, size)

    def __add__(self, other: Lost) -> Lost:
        return Lost(self.gram + other.gram, self.moment + other.moment)


@dataclass(frozen=True)
class Drift:
    """How far a ledger may be from one that was made anew from the retained rows."""

    lost: Lost
    """Bounds on the errors of the totals; zero in bit-exact mode."""
    head: float
    """Bound on the relative error of the head that follows from them.

    The smallest eigenvalue in it is LAPACK's estimate (`dpocon`), which is hardly ever off by more than a factor of
    three, or gamma where that is larger.
    """

    @property
    def due(self) -> bool:
        """Whether the totals should be made anew from the owners' rows (or with a grid, where nothing is lost)."""
        return not self.head <= TOLERANCE

    def __str__(self) -> str:
        if self.lost == Lost():
            return "nothing was lost to rounding"
        share = f"rounding may have moved the head by {self.head:.2g} of its size"
        if not self.due:
            return f"{share}; retraining is due above {TOLERANCE:g}"
        return f"{share}, above {TOLERANCE:g}: retrain from the owners' rows, in bit-exact mode to lose nothing again"
