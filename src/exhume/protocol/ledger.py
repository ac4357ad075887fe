"""The retained totals of a server, and the ridge head that follows from them."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from exhume.errors import InputError, SingularStateError
from exhume.numerics import Matrix
from exhume.protocol.grid import as_grid, check_on_grid, check_room, rows_left
from exhume.protocol.summary import Summary, Update

__all__ = ["Ledger"]

_BLOCK = 64


class Ledger:
    """Retained gram and moment with the ridge coefficient: ``W = (S + gamma I)^-1 G``. Never leaves the server.

    The Cholesky factor of ``A = S + gamma I`` is kept: an update whose net gram is zero reuses it.

    Parameters
    ----------
    total
        The retained summary to start from; `Ledger.zeros` starts empty.
    gamma
        The ridge coefficient, positive.
    grid
        Bit-exact mode: the power of two of whose multiples all features are made. After an addition and its deletion,
        in any order of messages, the ledger is bitwise the one that never saw the rows.
    """

    def __init__(self, total: Summary, gamma: float, grid: float | None = None) -> None:
        if not (np.isfinite(gamma) and gamma > 0):
            raise InputError("gamma", "a finite number above 0", gamma)
        self._gamma = float(gamma)
        self._grid = as_grid(grid)
        if self._grid is not None:
            check_on_grid(Update.adding(total), self._grid)
        self._gram: Matrix = np.ascontiguousarray(total.gram).copy()
        self._moment: Matrix = total.moment.copy()
        self._factor: Matrix = np.empty_like(self._gram)
        self._factored = False
        self._factorisations = 0
        self._updates = 0

    @classmethod
    def zeros(cls, d: int, c: int, gamma: float, grid: float | None = None) -> Ledger:
        """Return the ledger of nobody's data."""
        return cls(Summary.zeros(d, c), gamma, grid)

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return int(self._moment.shape[0])

    @property
    def c(self) -> int:
        """Number of classes."""
        return int(self._moment.shape[1])

    @property
    def gamma(self) -> float:
        """The ridge coefficient."""
        return self._gamma

    @property
    def grid(self) -> float | None:
        """The step of the bit-exact mode, or None."""
        return self._grid

    @property
    def factorisations(self) -> int:
        """How many Cholesky factorisations were done so far."""
        return self._factorisations

    @property
    def summary(self) -> Summary:
        """A copy of the retained totals, for evaluators and stores."""
        return Summary._trusted(self._gram.copy(), self._moment.copy())

    def apply(self, update: Update) -> None:
        """Add and delete: ``S + S+ - S-`` and ``G + G+ - G-``. On any error the ledger is bitwise as before."""
        if (update.d, update.c) != (self.d, self.c):
            raise InputError(
                "update", f"of d = {self.d}, c = {self.c}, as the ledger", f"d = {update.d}, c = {update.c}"
            )
        if self._grid is not None:
            check_on_grid(update, self._grid)
        net = update.net
        moment = self._moment + net.moment
        self._check_totals(net, moment)
        if not net.gram_is_zero:
            self._load(net.gram)
            self._refactor()
            np.add(self._gram, net.gram, out=self._gram)
        self._moment = moment
        self._updates += 1

    def head(self) -> Matrix:
        """Solve for the ridge head in float64 (d x c); the head of an empty ledger is zero."""
        return self.solve(self._moment)

    def solve(self, rhs: Matrix) -> Matrix:
        """Return ``A^-1 rhs`` from the kept factor."""
        solution, info = dpotrs(self._lower(), rhs, lower=1)
        if info != 0:  # pragma: no cover - dpotrs only reports illegal arguments
            raise InputError("rhs", "a right-hand side that LAPACK accepts", f"info = {info}")
        return np.ascontiguousarray(solution)

    def colour(self, white: Matrix) -> Matrix:
        """Return ``L^-T white`` with ``A = L L'``: standard normal columns come out with covariance ``A^-1``."""
        solution, _ = dtrtrs(self._lower(), white, lower=1, trans=1)
        return np.ascontiguousarray(solution)

    def residual(self, weights: Matrix) -> Matrix:
        """Return ``A weights - G``: by how much a head misses the ridge equation of the present state."""
        with np.errstate(invalid="ignore", over="ignore"):  # a head may have overflowed in a narrow format
            return np.asarray(self._gram @ weights + self._gamma * weights - self._moment)

    def size(self) -> float:
        """Return the Frobenius norm of ``A``."""
        ridge = self._gamma * (2.0 * float(np.trace(self._gram)) + self.d * self._gamma)
        return float(np.sqrt(max(float(np.vdot(self._gram, self._gram)) + ridge, 0.0)))

    def headroom(self, largest: float = 1.0) -> int | None:
        """Return how many more rows with entries up to ``largest`` surely fit in bit-exact mode (else None)."""
        if not (np.isfinite(largest) and largest > 0):
            raise InputError("largest", "a finite number above 0", largest)
        return None if self._grid is None else rows_left(self.summary, self._grid, largest)

    def copy(self) -> Ledger:
        """Return an independent ledger with the same totals and, if there is one, the same factor."""
        twin = Ledger(self.summary, self._gamma, self._grid)
        if self._factored:
            np.copyto(twin._factor, self._factor)
            twin._factored = True
        return twin

    def _lower(self) -> Matrix:
        """Return the kept factor L in Fortran order; only its lower triangle is meaningful."""
        if not self._factored:
            self._load(None)
            self._refactor()
        return self._factor.T

    def _load(self, net: Matrix | None) -> None:
        """Put the triangle that LAPACK reads of the gram, or of the gram after ``net``, in the factor's place."""
        self._factored = False
        for i in range(0, self.d, _BLOCK):
            rows, place = self._gram[i : i + _BLOCK, i:], self._factor[i : i + _BLOCK, i:]
            if net is None:
                np.copyto(place, rows)
            else:
                np.add(rows, net[i : i + _BLOCK, i:], out=place)

    def _check_totals(self, net: Summary, moment: Matrix) -> None:
        with np.errstate(over="ignore"):
            trace = np.trace(self._gram) + np.trace(net.gram)
        if not (np.isfinite(moment.sum()) and np.isfinite(trace)):
            raise InputError("update", "small enough that the totals stay finite", "an overflow in the totals")
        if self._grid is not None:
            check_room(Summary._trusted(self._gram + net.gram, moment.copy()), self._grid)

    def _refactor(self) -> None:
        """Factor what was loaded plus ``gamma I``, in place; after a failure the next solve loads the old gram."""
        # The transpose of a C-ordered symmetric matrix is that matrix in Fortran order: LAPACK needs no copy.
        self._factor.flat[:: self.d + 1] += self._gamma
        _, info = dpotrf(self._factor.T, lower=1, clean=0, overwrite_a=1)
        self._factorisations += 1
        if info != 0:
            raise SingularStateError(
                "update",
                "such that S + gamma I stays positive definite (a deletion only of what was added)",
                f"a leading minor of order {info} that is not positive",
            )
        self._factored = True

    def __repr__(self) -> str:
        grid = "" if self._grid is None else f", grid={self._grid}"
        return f"Ledger(d={self.d}, c={self.c}, gamma={self._gamma}{grid}, updates={self._updates})"
