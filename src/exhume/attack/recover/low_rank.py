"""Several records deleted in one broadcast: what the state before and the head after determine, and what they do not.

``M = A_pre (W_pre - W_post) = F'(Y - F W_post)`` has rank up to min(n, c). Up to c deleted records with independent
residuals it shows how many there were, the subspace that their features span, and which classes had none (``W'M`` is
symmetric on those). The records' gram and moment follow in two cases: when at least n classes are absent (their
columns of the moment are zero, which is linear in the gram), and when all n are of different classes (a Riccati
equation). Then the class counts are the diagonal of ``G' S^+ G``, and the records themselves are the moment's columns
where a class has one record. Several records of one class stay mixed: only their sum and the gram of all are
determined.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, svd

from exhume.attack._line import line
from exhume.attack.block import Block, Sample
from exhume.attack.recover.base import KINDS, Recovered, Recovery
from exhume.attack.state import State, alike
from exhume.errors import InputError, NotIdentifiedError
from exhume.numerics import Matrix, Rows, symmetric
from exhume.protocol.head import Head

__all__ = ["RECOVERIES", "LowRankDiagnostics", "class_counts", "low_rank"]

_PRESENT = 0.02  # a skew entry above this share of the largest is not roundoff


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

    def __repr__(self) -> str:
        counts = None if self.counts is None else self.counts.tolist()
        return line(self, records=self.records, present=self.present, counts=counts, alone=len(self.samples))


def class_counts(block: Block, rank: int) -> Matrix:
    """Return records per class: the diagonal of ``G' S^+ G``, whole numbers for linearly independent records.

    With S = F'F and G = F'Y it is ``Y' P Y``, where P projects on the span of F's columns: the identity if the n
    records are independent (n <= d).
    """
    values, vectors = np.linalg.eigh(symmetric(block.gram))
    top = vectors[:, -rank:]
    coordinates = top.T @ block.moment
    return np.asarray(np.einsum("ik,i,ik->k", coordinates, 1.0 / values[-rank:], coordinates))


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
    L = cholesky(before.A, lower=True, check_finite=False)
    left, values, _ = svd(L.T @ change, full_matrices=False, check_finite=False)
    n = int(np.count_nonzero(values > tolerance * values[0])) if records is None else min(records, c)
    basis, _ = np.linalg.qr(L @ left[:, :n])
    M = before.A @ change
    present = _present(W, M)
    absent = [k for k in range(c) if k not in present]
    if len(absent) >= n:
        block: Block | None = _from_absent(basis, M, W, absent)
        how = "several records of one class are mixed: only their sum and the gram of all are determined"
    else:
        block = _from_distinct(basis, M, W, n)
        how = "nothing"
    counts = None if block is None else class_counts(block, n)
    # Counts that are not whole numbers give the assumption of different classes away.
    if block is None or counts is None or np.abs(counts - np.rint(counts)).max() > 0.1:
        how = "gram and moment: too few absent classes, and more records than classes that lost one"
        raise NotIdentifiedError(f"not determined: {how}", LowRankDiagnostics(n, basis, present, None, (), how))
    whole = np.rint(counts).astype(np.intp)
    alone = tuple(Sample(int(k), block.moment[:, k].copy(), 1.0) for k in np.flatnonzero(whole == 1))
    found = LowRankDiagnostics(n, basis, present, whole, alone, "nothing" if whole.max() <= 1 else how)
    only = alone[0] if n == 1 and alone else None
    # Whole counts are the check: a block that is wrong has no reason to give any.
    label, feature = (None, None) if only is None else (only.label, only.feature)
    return Recovered(label, feature, block, True, found)


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


def _from_distinct(basis: Matrix, M: Matrix, W: Matrix, n: int) -> Block | None:
    """Solve ``S = (M + S W)(M + S W)'`` in the basis: records of n different classes.

    The solutions are ``Y X^-1`` for invariant subspaces ``[X; Y]`` of a Hamiltonian matrix that take one of each pair
    of eigenvalues +-lambda; the right one has one column per record and, for most encoders, few negative entries.
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
    best: tuple[float, Block] | None = None
    for flips in sorted(itertools.product((0, 1), repeat=n), key=sum):
        chosen = [second[i] if flip else first[i] for i, flip in enumerate(flips)]
        block = _candidate(basis, m, w, vectors[:n, chosen], vectors[n:, chosen])
        if block is None:
            continue
        norms = np.sort(np.linalg.norm(block.moment, axis=0))[::-1]
        size = float(np.linalg.norm(block.moment))
        score = float(np.linalg.norm(np.minimum(block.moment, 0)) + np.linalg.norm(norms[n:])) / size
        if best is None or score < best[0]:
            best = (score, block)
    return None if best is None else best[1]


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
