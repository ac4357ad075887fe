"""The retained totals of a server, and the ridge head that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import sqrt
from operator import add
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs, dtrtrs

from exhume.errors import InputError, SingularStateError
from exhume.numerics import Matrix
from exhume.protocol._checks import extent
from exhume.protocol.drift import Drift, Lost
from exhume.protocol.grid import as_grid, check_on_grid, check_room, rows_left
from exhume.protocol.low_rank import SHARE, PendingRows
from exhume.protocol.summary import Summary, Update

__all__ = ["LARGEST", "SOLVERS", "Ledger"]

SOLVERS = ("direct", "low-rank")
"""How a ledger comes to its head after a change of its gram: by a new factor each time, or from the kept one."""

LARGEST = 2.0**400
"""No total may be larger: squares of such numbers, and the products in a solve with them, are still finite."""

_LARGEST_HEAD = 2.0**1000
_BLOCK = 64


class Ledger:
    """Retained gram and moment with the ridge coefficient: ``W = (S + gamma I)^-1 G``. Never leaves the server.

    The Cholesky factor of ``A = S + gamma I`` is kept: an update whose net gram is zero reuses it. With the solver
    ``"low-rank"`` a factored update does so too (`exhume.protocol.low_rank`).

    After any history of additions and deletions the head is that of retraining on the retained rows, up to roundoff:
    relative to the largest totals that the history went through, not to what is left (`drift` has the bound, and says
    when it is too much). With a grid it is bitwise so.

    Parameters
    ----------
    total
        The retained summary to start from; `Ledger.zeros` starts empty.
    gamma
        The ridge coefficient, positive.
    grid
        Bit-exact mode: the power of two of whose multiples all features are made. After an addition and its deletion,
        in any order of messages, the ledger is bitwise the one that never saw the rows.
    lost
        What rounding may have taken from ``total`` already, where it was saved from an older ledger (its `lost`).
    solver
        One of `SOLVERS`. ``"direct"`` makes a new factor for every change of the gram, and its head is a function of
        the totals, to the last bit. ``"low-rank"`` costs a small part of that for few rows; its head is as near to the
        ridge equation, and its last bits depend on the history. Bit-exact mode takes ``"direct"`` alone.
    """

    def __init__(
        self,
        total: Summary,
        gamma: float,
        grid: float | None = None,
        lost: Lost | None = None,
        solver: str = "direct",
    ) -> None:
        if not (np.isfinite(gamma) and gamma > 0):
            raise InputError("gamma", "a finite number above 0", gamma)
        self._gamma = float(gamma)
        self._grid = None if grid is None else as_grid(grid)
        allowed = SOLVERS if grid is None else SOLVERS[:1]
        if solver not in allowed:
            mode = "" if grid is None else " in bit-exact mode"
            raise InputError("solver", f"{' or '.join(allowed)}{mode}", f"'{solver}'")
        self._solver = solver
        if self._grid is not None:
            check_on_grid(Update.adding(total), self._grid)
        # Nobody can write to the gram of a summary: it is ours as it is, until an update leaves it behind.
        self._gram: Matrix = np.ascontiguousarray(total.gram)
        self._moment: Matrix = total.moment.copy()
        self._check_size(float(np.trace(self._gram)), self._moment, "total")
        # The gram of an update is written beside the old one, which is still whole if the update fails.
        self._spare: Matrix | None = None
        self._factor: Matrix = np.empty_like(self._gram)
        self._factored = False
        self._lost = lost if lost is not None else Lost()
        self._pending = None if solver == "direct" else PendingRows.nothing(self.d)
        self._weights: Matrix | None = None
        self._size = 0.0
        self._factorisations = 0
        self._changes = 0
        self._updates = 0

    @classmethod
    def zeros(cls, d: int, c: int, gamma: float, grid: float | None = None, solver: str = "direct") -> Ledger:
        """Return the ledger of nobody's data."""
        return cls(Summary.zeros(d, c), gamma, grid, solver=solver)

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
    def solver(self) -> str:
        """How heads follow from changes."""
        return self._solver

    @property
    def factorisations(self) -> int:
        """How many Cholesky factorisations were done so far."""
        return self._factorisations

    @property
    def changes(self) -> int:
        """How often the gram has changed, steps that were taken back included: the same number, the same gram."""
        return self._changes

    @property
    def pending(self) -> int:
        """How many rows of changes the kept factor does not have yet. Deleted rows are among them: see `settle`."""
        return 0 if self._pending is None else len(self._pending.rows)

    @property
    def summary(self) -> Summary:
        """A copy of the retained totals, for evaluators and stores."""
        gram = self._gram.copy()
        if self._pending is not None and self.pending:
            gram += self._pending.times(np.eye(self.d))
        return Summary._trusted(gram, self._moment.copy())

    def settle(self) -> None:
        """Put what is pending into the totals and make their factor anew, so that no row is kept as it came.

        Who saves a ledger calls it first. The saved ledger and this one then go on alike, to the last bit.
        """
        if self.pending:
            self._renew(self._load(None))
            self._weights = None

    @property
    def lost(self) -> Lost:
        """Bounds on what rounding has taken from the totals so far (`exhume.protocol.drift`); to be saved with them."""
        return self._lost

    def apply(self, update: Update) -> None:
        """Add and delete: ``S + S+ - S-`` and ``G + G+ - G-``. On any error the ledger is bitwise as before."""
        self._apply(update, Lost())

    def apply_round(self, updates: Sequence[Update], *, proved: bool = False) -> list[InputError | None]:
        """Apply the sum of all updates that fit together; returns for each the error that left it out, or None.

        Where the sum of all does not fit, halves are tried, the first before the second, down to single updates: an
        update that the ledger cannot take is left out, and the others are taken. Of updates that fit one by one but not
        together, those that came first are taken. Whether one is on the grid is found for each alone: beside somebody
        else's numbers a small one would round away, and be taken where it says something of theirs.

        With ``proved`` the caller knows that ``S + gamma I`` stays positive definite: no factor is made before somebody
        asks for a head or a solve.
        """
        if self._grid is not None and len(updates) > 1:
            off = [_off_grid(update, self._grid) for update in updates]
            if any(error is not None for error in off):
                fit = [update for update, error in zip(updates, off, strict=True) if error is None]
                errors = iter(self.apply_round(fit, proved=proved) if fit else [])
                return [next(errors) if error is None else error for error in off]
        try:
            self._apply(*_summed(updates), proved=proved)
        except InputError as error:
            if len(updates) == 1:
                return [error]
            trial = self.copy()
            found = trial._apply_halves(updates)
            if None in found:
                self._become(trial)
            return found
        return [None] * len(updates)

    def checkpoint(self) -> Callable[[], None]:
        """Return what puts the ledger back to what it is now, bitwise. It serves for one change, not for a second."""
        names = ("_gram", "_moment", "_lost", "_updates", "_pending", "_weights", "_size")
        kept = {name: getattr(self, name) for name in names}

        def undo() -> None:
            if self._gram is not kept["_gram"]:
                self._spare, self._factored = self._gram, False
            self.__dict__.update(kept)

        return undo

    def head(self) -> Matrix:
        """Solve for the ridge head in float64 (d x c, read-only), once a state; that of an empty ledger is zero."""
        if self._weights is None:
            self._weights = self.solve(self._moment)
        self._weights.flags.writeable = False  # pickle and deepcopy give arrays back writeable
        return self._weights

    def solve(self, rhs: Matrix) -> Matrix:
        """Return ``A^-1 rhs`` from the kept factor."""
        if self._pending is not None:
            return np.ascontiguousarray(self._pending.solve(self._lower(), rhs))
        solution, info = dpotrs(self._lower(), rhs, lower=1)
        if info != 0:  # pragma: no cover - dpotrs only reports illegal arguments
            raise InputError("rhs", "a right-hand side that LAPACK accepts", f"info = {info}")
        return np.ascontiguousarray(solution)

    def colour(self, white: Matrix) -> Matrix:
        """Return ``L^-T white`` with ``A = L L'``: standard normal columns come out with covariance ``A^-1``."""
        self.settle()
        solution, _ = dtrtrs(self._lower(), white, lower=1, trans=1)
        return np.ascontiguousarray(solution)

    def residual(self, weights: Matrix) -> Matrix:
        """Return ``A weights - G``: by how much a head misses the ridge equation of the present state."""
        with np.errstate(invalid="ignore", over="ignore"):  # a head may have overflowed in a narrow format
            seen = self._gram @ weights + self._gamma * weights
            return np.asarray((seen if self._pending is None else seen + self._pending.times(weights)) - self._moment)

    def size(self) -> float:
        """Return the Frobenius norm of ``A``."""
        ridge = self._gamma * (2.0 * self._trace() + self.d * self._gamma)
        square = float(np.vdot(self._gram, self._gram))
        if self._pending is not None:
            square += self._pending.square_beside(self._gram)
        return float(np.sqrt(max(square + ridge, 0.0)))

    def drift(self) -> Drift:
        """Return how far the totals and the head may be from retraining, because of rounding (`Drift.due`)."""
        if self._lost == Lost():
            return Drift(self._lost, 0.0)
        self.settle()
        # With a norm of 1 for A, the reciprocal condition number is one over the norm of the inverse.
        smallest = max(self._gamma, float(dpocon(self._lower(), 1.0, uplo="L")[0]) - self._lost.gram)
        size = float(np.linalg.norm(self.head()))
        if size == 0.0:
            return Drift(self._lost, 0.0 if self._lost.moment == 0.0 else float("inf"))
        return Drift(self._lost, (self._lost.gram + self._lost.moment / size) / smallest)

    def headroom(self, largest: float = 1.0) -> int | None:
        """Return how many more rows with entries up to ``largest`` surely fit in bit-exact mode (else None)."""
        if not (np.isfinite(largest) and largest > 0):
            raise InputError("largest", "a finite number above 0", largest)
        return None if self._grid is None else rows_left(self.summary, self._grid, largest)

    def copy(self) -> Ledger:
        """Return an independent ledger with the same totals and, if there is one, the same factor."""
        total = Summary._trusted(self._gram.copy(), self._moment.copy())
        twin = Ledger(total, self._gamma, self._grid, self._lost, self._solver)
        twin._pending, twin._weights, twin._size = self._pending, self._weights, self._size
        if self._factored:
            np.copyto(twin._factor, self._factor)
            twin._factored = True
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_spare": None}

    def _apply(self, update: Update, summed: Lost, *, proved: bool = False) -> None:
        """Apply an update in whose making so much was lost already."""
        if (update.d, update.c) != (self.d, self.c):
            raise InputError(
                "update", f"of d = {self.d}, c = {self.c}, as the ledger", f"d = {update.d}, c = {update.c}"
            )
        if self._grid is not None:
            check_on_grid(update, self._grid)
        net = update.net
        moment = self._moment + net.moment
        with np.errstate(over="ignore"):
            before, change = self._trace(), net.trace
        self._check_size(before + change, moment, "update")
        if self._grid is not None:
            check_room(Summary._trusted(self._gram + net.gram, moment.copy()), self._grid)
        else:
            ridge, rows = (self.d + sqrt(self.d)) * self._gamma, 0 if self._pending is None else self.d // SHARE
            traces = max(before, 0.0) + ridge, max(before + change, 0.0) + ridge
            summed = summed + Lost.by_update(update, traces, moment, rows)
        zero = net.gram_is_zero
        if proved or not self._follow(net, moment, zero):
            if not zero or self.pending:
                self._renew(self._load(None if zero else net, factor=not proved), factor=not proved)
            self._weights = None
        self._moment, self._lost = moment, self._lost + summed
        self._changes += not zero
        self._updates += 1

    def _follow(self, net: Summary, moment: Matrix, zero: bool) -> bool:
        """Move the head by the kept factor, if the solver is for that and the residual allows it."""
        pending = self._pending
        few = zero or (net.is_factored and SHARE * (self.pending + net.rank) <= self.d)
        if pending is None or not few or (zero and not self.pending):
            return False  # with the factor of the very matrix a plain solve is cheaper than to follow and to test
        try:
            lower = self._lower()
        except SingularStateError:  # the totals that the ledger started from: the update may mend them
            return False
        least = (self._trace() + net.trace) / sqrt(self.d)
        found = pending.followed(lower, self._product, self.head(), net, moment)
        moved = None if found is None else found.within(max(self._size - found.pending.taken, least))
        if moved is None:
            return False
        self._pending, self._weights = moved
        return True

    def _product(self, W: Matrix) -> Matrix:
        """Return the matrix that was factored times W."""
        # By the BLAS that solves, too: NumPy's is another pool of threads, and on few cores each waits for the other.
        return np.asarray(dgemm(1.0, self._gram.T, W) + self._gamma * W)

    def _renew(self, gram: Matrix, *, factor: bool = True) -> None:
        """Keep the gram that was loaded, after its factor was made, if it is to be made now and that goes well."""
        if factor:
            self._refactor()
        self._spare, self._gram = self._gram, gram
        if self._pending is not None:
            self._pending = PendingRows.nothing(self.d)
            self._size = self.size()

    def _trace(self) -> float:
        return float(np.trace(self._gram)) + (0.0 if self._pending is None else self._pending.trace)

    def _apply_halves(self, updates: Sequence[Update]) -> list[InputError | None]:
        half = len(updates) // 2
        errors: list[InputError | None] = []
        for part in (updates[:half], updates[half:]):
            try:
                self._apply(*_summed(part))
                errors += [None] * len(part)
            except InputError as error:
                errors += [error] if len(part) == 1 else self._apply_halves(part)
        return errors

    def _become(self, other: Ledger) -> None:
        """Take over another ledger's state; its buffers are ours from here on."""
        other._updates, other._factorisations = self._updates + 1, self._factorisations + other._factorisations
        other._changes += self._changes
        self.__dict__.update(other.__dict__)

    def _lower(self) -> Matrix:
        """Return the kept factor L in Fortran order; only its lower triangle is meaningful."""
        if not self._factored:
            for i in range(0, self.d, _BLOCK):
                np.copyto(self._factor[i : i + _BLOCK, i:], self._gram[i : i + _BLOCK, i:])
            self._refactor()
            if self._pending is not None and self._size == 0.0:
                self._size = self.size()
        return self._factor.T

    def _load(self, net: Summary | None, *, factor: bool = True) -> Matrix:
        """Return the gram after what is pending and ``net`` in the spare place; with ``factor``, loaded for LAPACK.

        LAPACK reads one triangle, and its copy is made block by block while the rows are in the cache.
        """
        self._factored = False
        gram = self._spare
        if gram is None or not gram.flags.writeable:
            gram = np.empty_like(self._gram)
        self._spare = gram
        for i in range(0, self.d, _BLOCK):
            rows = slice(i, i + _BLOCK)
            old = self._gram[rows]
            if self._pending is not None:
                old = old + self._pending.band(rows)
            if net is None:
                np.copyto(gram[rows], old)
            else:
                np.add(old, net.band(rows), out=gram[rows])
            if factor:
                np.copyto(self._factor[rows, i:], gram[rows, i:])
        return gram

    def _check_size(self, trace: float, moment: Matrix, field: str) -> None:
        """Refuse totals of which a norm, a factor or a head could overflow (NaN included)."""
        if not (trace <= LARGEST and extent(moment) <= min(LARGEST, _LARGEST_HEAD * self._gamma)):
            raise InputError(field, f"such that the totals stay finite, below {LARGEST:.2g}", "larger totals")

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


def _off_grid(update: Update, grid: float) -> InputError | None:
    try:
        check_on_grid(update, grid)
    except InputError as error:
        return error
    return None


def _summed(updates: Sequence[Update]) -> tuple[Update, Lost]:
    """Return the sum of some updates, and a bound on what was lost in summing them."""
    if len(updates) == 1:
        return updates[0], Lost()
    sides = [side.magnitudes for update in updates for side in (update.add, update.delete)]
    gram, moment = (float(sum(sizes)) * (len(updates) - 1) for sizes in zip(*sides, strict=True))
    return reduce(add, updates), Lost.rounding(gram, moment)
