"""Several records deleted in one broadcast: what the state before and the head after determine, and what they do not.

``M = A_pre (W_pre - W_post) = F'(Y - F W_post)`` has rank up to min(n, c). Up to c deleted records with independent
residuals it shows how many there were, the subspace that their features span, and which classes had none (``W'M`` is
symmetric on those). The records' gram and moment follow in two cases: when at least n classes are absent (their
columns of the moment are zero, which is linear in the gram), and when all n are of different classes (a Riccati
equation). A Riccati equation has up to 2^n solutions. ``G' S^+ G`` must be diagonal with whole numbers, the class
counts: for n < c that leaves one solution, for n = c it says nothing, and the solutions are listed instead. The records
themselves are the moment's columns where a class has one record; `unmixed` goes on where it has several.

Where the features can express a constant (an intercept in their span), the columns of M sum to zero and only c - 1
records stand out.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd

from exhume.attack._line import line
from exhume.attack.block import Block, Sample
from exhume.attack.recover.base import KINDS, Recovered, Recovery
from exhume.attack.state import State, alike
from exhume.errors import InputError, NotIdentifiedError
from exhume.numerics import Matrix, Rows, relative, symmetric
from exhume.protocol.head import Head

__all__ = ["RECOVERIES", "LowRankDiagnostics", "class_counts", "low_rank"]

_PRESENT = 0.02  # a skew entry above this share of the largest is not roundoff
_WHOLE = 0.1  # class counts may miss whole numbers, and what lies between classes zero, by this much
_SAME = 1e-6  # solutions closer than this are one: two of a complex pair have the same real part
_CLEARLY = 0.1  # the best of several solutions must miss by at most this share of what the second misses by


@dataclass(frozen=True, repr=False)
class LowRankDiagnostics:
    """What one broadcast says of several deleted records beside their block."""

    records: int
    """How many (a lower bound if the deletion was larger than the number of classes)."""
    basis: Matrix
    """Orthonormal basis of the span of their features (d x records)."""
    present: tuple[int, ...]
    """Classes that must have lost records; one more may have, when only one seems absent."""
    counts: Rows | None
    """Records per class where determined."""
    samples: tuple[Sample, ...]
    """The records that are determined one by one: those alone in their class."""
    undetermined: str
    """What the observations leave open, in words."""
    candidates: tuple[Block, ...] = ()
    """Blocks that explain the broadcast equally well, those with the fewest negative entries first."""

    def __repr__(self) -> str:
        counts = None if self.counts is None else self.counts.tolist()
        return line(self, records=self.records, present=self.present, counts=counts, alone=len(self.samples))


def class_counts(block: Block, rank: int) -> Matrix:
    """Return records per class: the diagonal of ``G' S^+ G``, whole numbers for linearly independent records.

    With S = F'F and G = F'Y it is ``Y' P Y``, where P projects on the span of F's columns: the identity if the n
    records are independent (n <= d).
    """
    return np.diag(_between(block, rank))


def _between(block: Block, rank: int) -> Matrix:
    """Return ``G' S^+ G`` (c x c): ``Y'Y``, the class counts on its diagonal and nothing beside it."""
    values, vectors = np.linalg.eigh(symmetric(block.gram))
    coordinates = vectors[:, -rank:].T @ block.moment
    return np.asarray((coordinates.T / values[-rank:]) @ coordinates)


def _misses(block: Block, rank: int) -> float:
    """Return by how much a block's class counts miss whole numbers, and what lies between classes zero."""
    table = _between(block, rank)
    return float(np.abs(table - np.diag(np.rint(np.diag(table)))).max())


def low_rank(before: State, after: Head, *, records: int | None = None, tolerance: float = 1e-3) -> Recovered:
    """Recover what one broadcast determines of several deleted records.

    Parameters
    ----------
    before
        The state before the deletion.
    after
        The head after it.
    records
        How many records were deleted, if known; else the number of singular values above ``tolerance`` times the first.

    Raises
    ------
    NotIdentifiedError
        If gram and moment are not determined; its diagnostics say what is.
    """
    before, after = alike(before, after)
    if records is not None and records < 1:
        raise InputError("records", "at least 1", records)
    W, c = after.weights, after.c
    change = before.baseline.weights - W
    left, values, _ = svd(before.factor.whiten(change), full_matrices=False, check_finite=False)
    n = int(np.count_nonzero(values > tolerance * values[0])) if records is None else min(records, c)
    basis, _ = np.linalg.qr(before.factor.colour(left[:, :n]))
    M = before.A @ change
    present = _present(W, M)
    absent = [k for k in range(c) if k not in present]
    candidates = [_from_absent(basis, M, W, absent)] if len(absent) >= n else _from_distinct(basis, M, W, n)
    block = _chosen(candidates, n, c)
    if block is None:
        how = "gram and moment: too few absent classes, and more records than classes that lost one"
        fitting = tuple(b for b in candidates if _misses(b, n) <= _WHOLE)
        if fitting:
            how = f"which of {len(fitting)} blocks was deleted: all explain the broadcast"
        found = LowRankDiagnostics(n, basis, present, None, (), how, fitting)
        raise NotIdentifiedError(f"not determined: {how}", found)
    whole = np.rint(class_counts(block, n)).astype(np.intp)
    alone = tuple(Sample(int(k), block.moment[:, k].copy(), 1.0) for k in np.flatnonzero(whole == 1))
    mixed = "several records of one class are mixed: only their sum and the gram of all are determined"
    found = LowRankDiagnostics(n, basis, present, whole, alone, "nothing" if whole.max() <= 1 else mixed)
    only = alone[0] if n == 1 and alone else None
    label, feature = (None, None) if only is None else (only.label, only.feature)
    return Recovered(label, feature, block, True, found)


def _chosen(candidates: list[Block], n: int, c: int) -> Block | None:
    """Return the one block that whole counts single out; None where none fits, several do, or the counts say nothing.

    For n = c different classes ``G' S^+ G`` is the identity for every solution of the Riccati equation.
    """
    if not candidates or (n >= c and n > 1):
        return None
    ranked = sorted(candidates, key=lambda block: _misses(block, n))
    best = _misses(ranked[0], n)
    if best > _WHOLE or (len(ranked) > 1 and best > _CLEARLY * _misses(ranked[1], n)):
        return None
    return ranked[0]


def _present(W: Matrix, M: Matrix) -> tuple[int, ...]:
    """Return the smallest set of classes that explains the asymmetry of ``W'M``: it vanishes between absent classes."""
    product = W.T @ M
    skew = np.abs(product - product.T)
    edges = np.argwhere(np.triu(skew > _PRESENT * skew.max()))
    c = len(skew)
    order = np.argsort(-skew.max(axis=1))
    for size in range(c):
        covers = [set(s) for s in itertools.combinations(range(c), size) if all(a in s or b in s for a, b in edges)]
        if covers:
            # Among covers of one size, the one that carries most of the asymmetry.
            best = max(covers, key=lambda s: sum(skew[k].sum() for k in s))
            return tuple(int(k) for k in order if k in best)
    return tuple(range(c))


def _from_absent(basis: Matrix, M: Matrix, W: Matrix, absent: list[int]) -> Block:
    """Solve ``0 = M_a + S W_a`` over absent classes a for the gram in the basis, symmetric least squares."""
    w, m = basis.T @ W, basis.T @ M
    U, s, Vt = svd(w[:, absent], full_matrices=True, check_finite=False)
    k = len(s)
    C = U.T @ -m[:, absent] @ Vt[:k].T
    B = C * s
    inner = (B + B.T) / (s[:, None] ** 2 + s[None, :] ** 2)
    sigma = symmetric(U @ inner @ U.T)
    return Block(basis @ sigma @ basis.T, M + basis @ (sigma @ w))


def _from_distinct(basis: Matrix, M: Matrix, W: Matrix, n: int) -> list[Block]:
    """Return every solution of ``S = (M + S W)(M + S W)'`` in the basis, records of n different classes.

    The solutions are ``Y X^-1`` for invariant subspaces ``[X; Y]`` of a Hamiltonian matrix that take one of each pair
    of eigenvalues +-lambda; the right one is real, positive and, for most encoders, has few negative entries.
    """
    w, m = basis.T @ W, basis.T @ M
    E = w @ m.T - 0.5 * np.eye(n)
    values, vectors = np.linalg.eig(np.block([[E, w @ w.T], [-m @ m.T, -E.T]]))
    order = list(np.argsort(-values.real))
    first, rest = order[:n], order[n:]
    second = []
    for i in first:
        j = min(rest, key=lambda q: abs(values[q] + values[i]))
        rest.remove(j)
        second.append(j)
    found: list[tuple[float, Block]] = []
    for flips in itertools.product((0, 1), repeat=n):
        chosen = [second[i] if flip else first[i] for i, flip in enumerate(flips)]
        block = _candidate(basis, m, w, vectors[:n, chosen], vectors[n:, chosen])
        if block is not None and not any(relative(block.gram - b.gram, b.gram) < _SAME for _, b in found):
            size = float(np.linalg.norm(block.moment))
            found.append((float(np.linalg.norm(np.minimum(block.moment, 0))) / size, block))
    return [block for _, block in sorted(found, key=lambda pair: pair[0])]


def _candidate(
    basis: Matrix, m: Matrix, w: Matrix, X: NDArray[np.complex128], Y: NDArray[np.complex128]
) -> Block | None:
    if np.linalg.cond(X) > 1e13:
        return None
    sigma = Y @ np.linalg.inv(X)
    if np.abs(sigma.imag).max() > 0.05 * np.abs(sigma).max():
        return None
    inner = symmetric(np.ascontiguousarray(sigma.real))
    low, high = np.linalg.eigvalsh(inner)[[0, -1]]
    if low < -0.02 * high:
        return None
    return Block(basis @ inner @ basis.T, basis @ (m + inner @ w))


RECOVERIES = (
    Recovery("low-rank", "several records from the state before and a single head after", low_rank, "head", KINDS),
)
