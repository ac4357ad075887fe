"""Records of one class told apart: their sum and their gram leave a rotation open, and two things close it.

For two records the sum s and the gram S say all: ``g g' = 2 S - s s'`` is the square of their difference, and the
records are ``(s + g) / 2`` and ``(s - g) / 2``. For n records the rows of F are known up to a rotation that keeps
their sum; features of a rectifier are not negative, and few rotations keep them so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from exhume.attack._line import line
from exhume.attack.block import Block, Sample
from exhume.attack.recover.base import KINDS, Recovered, Recovery
from exhume.attack.recover.low_rank import LowRankDiagnostics, low_rank
from exhume.attack.state import State
from exhume.errors import InputError
from exhume.numerics import Matrix, relative, symmetric
from exhume.protocol.head import Head

__all__ = ["RECOVERIES", "Unmixed", "separate", "unmix", "unmixed"]

_STEPS = 300  # of one start; the negative part is small long before
_PAIR = 0.05  # 2 S - s s' of two records has rank one up to this share
_NEGATIVE = 0.02  # rows whose negative part is below this share pass for features of a rectifier


@dataclass(frozen=True, repr=False)
class Unmixed:
    """Records of one class, told apart as far as it goes."""

    features: Matrix
    """One row a record, in no order."""
    negative: float
    """Share of the rows' norm in negative entries: the self-check, zero for features of a rectifier."""
    spread: float
    """Relative distance between the best two results from different starts: small where the answer is one."""

    @property
    def known(self) -> bool:
        """Whether the attacker would stand by the rows: nothing negative, and every start ends at them."""
        return self.negative < _NEGATIVE and self.spread < _NEGATIVE

    def __repr__(self) -> str:
        return line(self, records=len(self.features), negative=self.negative, spread=self.spread)


def separate(gram: Matrix, total: Matrix) -> Unmixed:
    """Return the two records whose gram and sum these are.

    The self-check is ``negative``: here the share of ``2 S - s s'`` that is not of rank one.
    """
    values, vectors = np.linalg.eigh(symmetric(2.0 * gram - np.outer(total, total)))
    g = np.sqrt(max(float(values[-1]), 0.0)) * vectors[:, -1]
    rest = float(np.linalg.norm(values[:-1])) / max(float(values[-1]), 1e-300)
    return Unmixed(np.array([total + g, total - g]) / 2.0, rest, rest)


def unmix(gram: Matrix, total: Matrix, records: int, *, starts: int = 10, seed: int = 0) -> Unmixed:
    """Return records whose gram and sum these are, with the least negative part that was found.

    Parameters
    ----------
    gram, total
        Gram and sum of records of one class.
    records
        How many; one and two are solved exactly.
    starts
        Random rotations to begin with.
    """
    if records < 1:
        raise InputError("records", "at least 1", records)
    if records == 1:
        return Unmixed(total[None, :].copy(), 0.0, 0.0)
    if records == 2:
        return separate(gram, total)
    values, vectors = np.linalg.eigh(symmetric(gram))
    roots = np.sqrt(np.maximum(values[-records:], 1e-300))
    R = roots[:, None] * vectors[:, -records:].T
    rng = np.random.default_rng(seed)
    # F = O R with O orthogonal; 1'O is known from the sum, so O turns that vector into the ones.
    image = (vectors[:, -records:].T @ total) / roots
    frame, target = _completed(image), _completed(np.ones(records))
    found = []
    for _ in range(starts):
        inner, _ = np.linalg.qr(rng.standard_normal((records - 1, records - 1)))
        F = _descended(R, frame, target, inner)
        found.append((float(np.linalg.norm(np.minimum(F, 0.0)) / np.linalg.norm(F)), F))
    found.sort(key=lambda pair: pair[0])
    best = found[0][1]
    spread = relative(_aligned(found[1][1], best) - best, best) if len(found) > 1 else float("inf")
    return Unmixed(best, found[0][0], spread)


def _completed(vector: Matrix) -> Matrix:
    """Return an orthogonal matrix whose first column is along a vector."""
    n = len(vector)
    q, r = np.linalg.qr(np.column_stack([vector, np.eye(n)[:, : n - 1] + 1e-3 * np.arange(n)[:, None]]))
    q[:, 0] *= np.sign(r[0, 0])
    return np.asarray(q)


def _descended(R: Matrix, frame: Matrix, target: Matrix, inner: Matrix) -> Matrix:
    """Turn the rows until as little as possible is negative: clip, then the nearest rotation, again and again."""
    ahead, fixed = target[:, 1:], np.outer(target[:, 0], frame[:, 0])
    back = frame[:, 1:].T @ R
    for _ in range(_STEPS):
        F = (fixed + ahead @ inner @ frame[:, 1:].T) @ R
        # Past the clip by as much again: a plain alternation crawls where it meets the positive corner.
        wanted = 2.0 * np.maximum(F, 0.0) - np.minimum(F, 0.0) - F
        U, _, Vt = svd(ahead.T @ wanted @ back.T, check_finite=False)
        inner = U @ Vt
    return np.asarray((fixed + ahead @ inner @ frame[:, 1:].T) @ R)


def _aligned(rows: Matrix, to: Matrix) -> Matrix:
    """Return rows in the order in which they fit others best, one after another."""
    from scipy.optimize import linear_sum_assignment

    cost = ((to[:, None, :] - rows[None, :, :]) ** 2).sum(axis=2)
    return rows[linear_sum_assignment(cost)[1]]


def unmixed(before: State, after: Head, *, records: int | None = None, nonnegative: bool = False) -> Recovered:
    """Recover several deleted records and tell those of one class apart, where one class alone lost several.

    Parameters
    ----------
    before, after, records
        As in `low_rank`, whose diagnostics come back with every record among ``samples`` that was told apart.
    nonnegative
        Whether features are known to be non-negative; more than two records of a class need it.
    """
    found = low_rank(before, after, records=records)
    more = found.diagnostics
    assert isinstance(more, LowRankDiagnostics) and more.counts is not None
    several = np.flatnonzero(more.counts > 1)
    if len(several) != 1 or (more.counts[several[0]] > 2 and not nonnegative):
        return found
    label = int(several[0])
    gram = found.block.gram - sum(np.outer(s.feature, s.feature) for s in more.samples)
    rows = unmix(gram, found.block.moment[:, label], int(more.counts[label]))
    told = tuple(Sample(label, row.copy(), 1.0 - rows.negative) for row in rows.features)
    open_ = "nothing" if rows.known else f"records of class {label}: told apart only up to a rotation"
    all_of_them = LowRankDiagnostics(
        more.records, more.basis, more.present, more.counts, (*more.samples, *told), open_, more.candidates
    )
    return Recovered(None, None, Block(found.block.gram, found.block.moment), rows.known, all_of_them)


RECOVERIES = (Recovery("unmixed", "low-rank, then records of one class told apart", unmixed, "head", KINDS),)
