"""An independent oracle: the server's algebra in exact rational arithmetic (python-flint)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from flint import fmpq, fmpq_mat

Rational = fmpq_mat


def exact(values) -> Rational:
    """Return float64 values as the dyadic rationals that they are; a vector becomes a column."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 1:
        array = array[:, None]
    return fmpq_mat(*array.shape, [number(x) for x in array.ravel()])


def number(x: float) -> fmpq:
    return fmpq(*float(x).as_integer_ratio())


def floats(m: Rational) -> np.ndarray:
    """Return the nearest float64 to every entry (division of Python integers rounds correctly)."""
    return np.array([int(x.p) / int(x.q) for x in m.entries()]).reshape(m.nrows(), m.ncols())


def zeros(rows: int, columns: int) -> Rational:
    return fmpq_mat(rows, columns)


def eye(d: int) -> Rational:
    return exact(np.eye(d))


def unit(d: int, k: int) -> Rational:
    return exact(np.eye(d)[:, k])


def hstack(blocks: Sequence[Rational]) -> Rational:
    tables = [block.tolist() for block in blocks]
    return fmpq_mat([list(chain.from_iterable(rows)) for rows in zip(*tables, strict=True)])


def column(m: Rational, k: int) -> Rational:
    return fmpq_mat(m.nrows(), 1, [m[i, k] for i in range(m.nrows())])


def symmetric(m: Rational) -> Rational:
    return (m + m.transpose()) * fmpq(1, 2)


def pinv(stack: Rational) -> Rational:
    """Return the pseudo-inverse of a stack of full row rank: ``X' (X X')^-1``."""
    return stack.transpose() * (stack * stack.transpose()).inv()


def square(m: Rational) -> fmpq:
    """Return the squared Frobenius norm."""
    return sum((x * x for x in m.entries()), fmpq(0))


def left_null_vector(stack: Rational) -> Rational:
    """Return a nonzero ``v`` with ``v' stack = 0``; the stack must be rank deficient."""
    d = stack.nrows()
    reduced, rank = stack.transpose().rref()
    assert rank < d
    pivots = [next(j for j in range(d) if reduced[i, j] != 0) for i in range(rank)]
    free = next(j for j in range(d) if j not in pivots)
    v = zeros(d, 1)
    v[free, 0] = fmpq(1)
    for i, pivot in enumerate(pivots):
        v[pivot, 0] = -reduced[i, free]
    return v


def _symmetric_functions(m: Rational) -> list[fmpq]:
    """Return the elementary symmetric functions of the eigenvalues, of order 1 to d."""
    d, coefficients = m.nrows(), m.charpoly().coeffs()
    return [coefficients[d - k] * (-1) ** k for k in range(1, d + 1)]


def is_psd(m: Rational) -> bool:
    return m == m.transpose() and all(e >= 0 for e in _symmetric_functions(m))


def is_pd(m: Rational) -> bool:
    return m == m.transpose() and all(e > 0 for e in _symmetric_functions(m))


def bound_holds(left: Rational, top: Rational, numerator: Rational, bottom: Rational) -> bool:
    """Certify ``|left|_F <= |top|_2 |numerator|_F / sigma_min(bottom)`` in exact arithmetic, to a part in 2**40.

    A rational t just above the square of ``|top|_2 |numerator|_F`` is proved to be above it, and the square of
    ``|left|_F sigma_min(bottom)`` is proved not to be above t. No eigenvalue is trusted to floating point.
    """
    size = square(numerator) * (top * top.transpose())
    estimate = float(np.linalg.eigvalsh(floats(size))[-1])
    t = number(estimate * (1 + 2.0**-40) + 2.0**-200)
    assert is_psd(eye(size.nrows()) * t - size)
    return not is_pd(square(left) * (bottom * bottom.transpose()) - eye(bottom.nrows()) * t)


@dataclass(frozen=True)
class Ridge:
    """A server state ``(A, G)`` with ``A = S + gamma I``."""

    A: Rational
    G: Rational
    gamma: fmpq

    @classmethod
    def of(cls, features, labels, classes: int, gamma: float) -> "Ridge":
        F, Y = exact(features), exact(np.eye(classes)[labels])
        return cls(F.transpose() * F + eye(F.ncols()) * number(gamma), F.transpose() * Y, number(gamma))

    @property
    def d(self) -> int:
        return self.A.nrows()

    @property
    def S(self) -> Rational:
        return self.A - eye(self.d) * self.gamma

    @property
    def head(self) -> Rational:
        return self.A.solve(self.G)

    def plus(self, gram: Rational, moment: Rational) -> "Ridge":
        return replace(self, A=self.A + gram, G=self.G + moment)

    def after(self, update) -> "Ridge":
        """Apply a submitted update: all four matrices, exactly."""
        add, delete = update.add, update.delete
        return self.plus(exact(add.gram) - exact(delete.gram), exact(add.moment) - exact(delete.moment))


@dataclass(frozen=True)
class Play:
    """A probe played against an exact server: totals and heads wherever it listens, and the state after cancelling."""

    start: Ridge
    grams: list[Rational]
    moments: list[Rational]
    heads: list[Rational]
    end: Ridge

    @property
    def X(self) -> Rational:
        return hstack([head - self.start.head for head in self.heads])

    @property
    def Z(self) -> Rational:
        parts = zip(self.moments, self.grams, self.heads, strict=True)
        return hstack([moment - gram * head for moment, gram, head in parts])


def play(start: Ridge, probe) -> Play:
    """Submit a probe's own updates to an exact server and cancel with what was really accumulated."""
    state, grams, moments, heads = start, [], [], []
    total = None
    for step in probe.steps():
        state = state.after(step.update)
        total = step.update.net if total is None else total + step.update.net
        if step.listen:
            grams.append(state.A - start.A)
            moments.append(state.G - start.G)
            heads.append(state.head)
    return Play(start, grams, moments, heads, state.after(probe.cancel(total, len(list(probe.steps())))))
