"""Grams, dense or of low rank: ``S = R' diag(signs) R`` with fewer rows than columns is never written out unasked.

A gram that is written out is kept if it is small (`KEPT` numbers); a large one is made anew for everybody who asks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

import numpy as np

from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol._checks import check_finite
from exhume.protocol._triangle import triangular

__all__ = ["KEPT", "DenseGram", "FactorGram", "Gram", "RowsGram", "combined", "negated", "no_gram"]

KEPT = 2**20
"""Numbers in a gram up to which it is small: 8 MB, d = 1024. A small gram is kept once it is written out, and norms
are taken of it as it is written; norms of a larger one come from its factor."""


Terms = tuple[tuple[float, "Gram"], ...]


def sealed(array: Matrix) -> Matrix:
    """Make an array that we just computed read-only, in place."""
    array.flags.writeable = False
    return array


class Gram(ABC):
    """A symmetric d x d matrix that several summaries may share. Immutable.

    Attributes
    ----------
    d
        Its size.
    rank
        The most that its rank can be.
    trace
        The sum of the diagonal.
    weight
        A number no less than the Frobenius norm, and zero only if the gram is: the sum of magnitudes of a dense gram,
        the squared lengths of all rows of a factor.
    is_square
        Whether it is ``R'R`` with a known R.
    """

    def __init__(self, d: int, rank: int, sizes: tuple[float, float], square: bool, dense: Matrix | None) -> None:
        self.d, self.rank, self.is_square = d, rank, square
        self.trace, self.weight = sizes
        self._dense = dense

    @property
    def dense(self) -> Matrix:
        """The matrix, written out."""
        if self._dense is not None:
            return self._dense
        made = sealed(self._make())
        if self.small:
            self._dense = made
        return made

    @property
    def small(self) -> bool:
        """Whether it is written out without a thought."""
        return self.d * self.d <= KEPT

    @property
    @abstractmethod
    def factor(self) -> tuple[Matrix, Matrix] | None:
        """Rows R and their signs with ``S = R' diag(signs) R``; None where only the dense form is known."""

    @property
    def products(self) -> tuple[Matrix, Matrix] | None:
        """Any rows and signs whose products make the gram, for sums inside this module."""
        return self.factor

    @abstractmethod
    def _make(self) -> Matrix: ...

    @property
    def is_zero(self) -> bool:
        """Whether the gram is known to be zero everywhere: it has no weight, or a small one comes out so."""
        if self.weight == 0.0 or self.is_square or self.rank == self.d:
            return self.weight == 0.0
        # Rows of both signs cancel only where their sizes do: the product is rarely asked for.
        return abs(self.trace) <= 2.0**-20 * self.weight and self.small and not self.dense.any()

    def diagonal(self) -> Matrix:
        """Return the diagonal."""
        found = None if self._dense is not None else self.products
        if found is None:
            return np.diagonal(self.dense)
        rows, signs = found
        return np.asarray(np.einsum("i,ij,ij->j", signs, rows, rows))

    def square(self) -> float:
        """Return the squared Frobenius norm."""
        found = None if self.small else self.products
        if found is None:
            dense = self.dense
            return float(np.vdot(dense, dense))
        rows, signs = found
        return max(float(signs @ (rows @ rows.T) ** 2 @ signs), 0.0)

    def times(self, right: Matrix) -> Matrix:
        """Return ``S right``."""
        found = None if self._dense is not None else self.products
        if found is None:
            return np.asarray(self.dense @ right)
        rows, signs = found
        return np.asarray(rows.T @ (signs[:, None] * (rows @ right)))

    def band(self, which: slice) -> Matrix:
        """Return some rows of the matrix: those of one product are the same to the last bit, written out or not."""
        written = self._dense is not None or (self.small and self.rank > 1)
        found = None if written else self.products
        if found is None:
            return self.dense[which]
        rows, signs = found
        return np.asarray((signs[:, None] * rows[:, which]).T @ rows)

    def same(self, other: Gram) -> bool:
        """Say whether two grams are the same, number by number, of the factors where both have one."""
        if self is other:
            return True
        mine, theirs = self.factor, other.factor
        if mine is not None and theirs is not None and all(map(np.array_equal, mine, theirs)):
            return True
        return np.array_equal(self.dense, other.dense)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for value in state.values():  # pickle gives arrays back writeable
            if isinstance(value, np.ndarray):
                sealed(value)


class DenseGram(Gram):
    """A gram that is known entry by entry."""

    def __init__(self, matrix: Matrix) -> None:
        d, weight = len(matrix), check_finite(matrix, "gram")
        super().__init__(d, d, (float(np.trace(matrix)), weight), False, matrix)

    @property
    def factor(self) -> None:
        """No factor is known."""
        return None

    def _make(self) -> Matrix:  # pragma: no cover - it is there from the start
        raise AssertionError("a dense gram is written out")


class FactorGram(Gram):
    """A gram that is known by its factor."""

    def __init__(self, rows: Matrix, signs: Matrix, dense: Matrix | None = None) -> None:
        squares = _squares(rows)
        sizes = float(squares @ signs), float(squares.sum())
        super().__init__(rows.shape[1], len(rows), sizes, bool((signs > 0).all()), dense)
        self._rows, self._signs = rows, signs

    @property
    def factor(self) -> tuple[Matrix, Matrix]:
        """Rows and signs."""
        return self._rows, self._signs

    def _make(self) -> Matrix:
        return (self._rows * self._signs[:, None]).T @ self._rows


class RowsGram(Gram):
    """The gram of few feature rows in the process that holds them: written out from the rows, sent as their factor.

    The rows themselves go nowhere: the wire and pickle take the factor.
    """

    def __init__(self, rows: Matrix) -> None:
        size = float(_squares(rows).sum())
        super().__init__(rows.shape[1], len(rows), (size, size), True, None)
        self._rows = rows
        self._factor: tuple[Matrix, Matrix] | None = None

    @property
    def factor(self) -> tuple[Matrix, Matrix]:
        """The triangular factor, made when first asked for."""
        if self._factor is None:
            made = sealed(triangular(self._rows))
            self._factor = made, sealed(np.ones(len(made)))
        return self._factor

    @property
    def products(self) -> tuple[Matrix, Matrix]:
        """The rows as they are."""
        return self._rows, np.ones(len(self._rows))

    def _make(self) -> Matrix:
        return self._rows.T @ self._rows

    def __reduce__(self) -> tuple[Any, ...]:
        return FactorGram, (*self.factor, self.dense if self.small else None)


class SumGram(Gram):
    """The sum of small grams of low rank, written out as the sum of theirs."""

    def __init__(self, terms: Terms, parts: tuple[Gram, Gram | None, float]) -> None:
        rank, weight = sum(gram.rank for _, gram in terms), sum(gram.weight for _, gram in terms)
        square = all(sign > 0 and gram.is_square for sign, gram in terms)
        super().__init__(parts[0].d, rank, (sum(sign * gram.trace for sign, gram in terms), weight), square, None)
        self.terms = terms
        self._parts: tuple[Gram, Gram | None, float] | None = parts
        self._factor: tuple[Matrix, Matrix] | None = None

    @property
    def factor(self) -> tuple[Matrix, Matrix]:
        """The factors of all terms, one below the other."""
        if self._factor is None:
            self._factor = _stacked(self.terms, self.d)
        return self._factor

    def _make(self) -> Matrix:
        assert self._parts is not None
        first, second, sign = self._parts
        self._parts = None  # a long sum must not hold all that it came from
        if second is None:
            return sign * first.dense
        return first.dense + second.dense if sign > 0 else first.dense - second.dense

    def __reduce__(self) -> tuple[Any, ...]:
        return FactorGram, (*self.factor, self.dense)


@lru_cache(maxsize=8)
def no_gram(d: int) -> FactorGram:
    """Return the gram of no rows (the same object for the same size: it is immutable)."""
    return FactorGram(sealed(np.zeros((0, d))), sealed(np.zeros(0)))


def combined(first: Gram, second: Gram, sign: float) -> Gram:
    """Return the sum or difference of two grams; dense as soon as its rank may be full."""
    if second.is_zero:
        return first
    if sign < 0 and first is second:
        return no_gram(first.d)
    terms = _terms(first), _terms(second)
    if terms[0] is None or terms[1] is None or first.rank + second.rank >= first.d:
        return DenseGram(sealed(first.dense + second.dense if sign > 0 else first.dense - second.dense))
    both = (*terms[0], *((sign * own, gram) for own, gram in terms[1]))
    if not first.small:
        return FactorGram(*_uncancelled(*_stacked(both, first.d)))
    for part in (first, second):
        if isinstance(part, SumGram):
            part.dense  # noqa: B018 - written out now, a long sum is no deep tree later
    return SumGram(both, (first, second, sign))


def negated(gram: Gram) -> Gram:
    """Return the gram with the other sign."""
    terms = _terms(gram)
    if terms is None:
        return DenseGram(sealed(-gram.dense))
    turned = tuple((-sign, part) for sign, part in terms)
    if not gram.small:
        return FactorGram(*_stacked(turned, gram.d))
    return SumGram(turned, (gram, None, -1.0)) if turned else gram


def _terms(gram: Gram) -> Terms | None:
    if isinstance(gram, SumGram):
        return gram.terms
    if isinstance(gram, DenseGram):
        return None
    return ((1.0, gram),) if gram.rank else ()


def _uncancelled(rows: Matrix, signs: Matrix) -> tuple[Matrix, Matrix]:
    """Leave out rows that are there with both signs, the same number by number: what is added and taken back."""
    if not ((signs > 0).any() and (signs < 0).any()):
        return rows, signs
    waiting: dict[tuple[bytes, float], list[int]] = {}
    left: set[int] = set()
    for i, (row, sign) in enumerate(zip(rows, signs, strict=True)):
        data = row.tobytes()
        if others := waiting.get((data, -sign)):
            left.discard(others.pop())
        else:
            waiting.setdefault((data, float(sign)), []).append(i)
            left.add(i)
    kept = sorted(left)
    return sealed(rows[kept]), sealed(signs[kept])


def _stacked(terms: Terms, d: int) -> tuple[Matrix, Matrix]:
    found = [(gram.factor, sign) for sign, gram in terms]
    rows = [factor[0] for factor, _ in found if factor is not None]
    signs = [sign * factor[1] for factor, sign in found if factor is not None]
    return sealed(np.concatenate([np.zeros((0, d)), *rows])), sealed(np.concatenate([np.zeros(0), *signs]))


def _squares(rows: Matrix) -> Matrix:
    """Return the squared length of each row; one that overflows has no gram."""
    with np.errstate(over="ignore"):
        found = np.einsum("ij,ij->i", rows, rows)
        if not np.isfinite(found.sum()):
            raise InputError("gram", "finite everywhere", "a product of rows that overflows")
    return sealed(found)
