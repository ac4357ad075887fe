"""One deleted record as far as a partly identified state determines it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from exhume.attack._line import line
from exhume.attack.block import Block
from exhume.attack.recover.base import Recovered, Recovery
from exhume.attack.recover.fit import fit_record
from exhume.attack.state import State, alike
from exhume.numerics import Matrix
from exhume.protocol.head import Head

__all__ = ["RECOVERIES", "PartialDiagnostics", "partial"]


@dataclass(frozen=True, repr=False)
class PartialDiagnostics:
    """The part of a record that a partial state determines, up to one common scale."""

    inside: Matrix
    """Coordinates ``U' f`` in the known subspace, up to scale."""
    right: Matrix
    """The right vector, proportional to ``e_k - W_post' f``: determined whatever the rank."""
    outside_share: float
    """The share of ``A^-1 f`` that lies outside the known subspace: what the guess had to stand in for."""
    margin: float
    """Misfit of the second-best label over that of the best."""

    def __repr__(self) -> str:
        return line(self, inside=self.inside, outside_share=self.outside_share, margin=self.margin)


def partial(before: State, after: Head, *, nonnegative: bool = False) -> Recovered:
    """Recover one deleted record as far as the span of `estimate.partial` allows.

    The head's change is ``(A^-1 f) r'`` exactly, so its right vector and ``h = A^-1 f`` are seen at any rank, and
    ``U' f = (A U)' h`` is determined. Outside the subspace ``f = A h`` rests on the guess of A's corner, and label and
    length on both.
    """
    before, after = alike(before, after)
    left, values, right = svd(before.baseline.weights - after.weights, full_matrices=False, check_finite=False)
    h = left[:, 0]
    U = np.eye(before.d) if before.basis is None else before.basis
    size = float(np.linalg.norm(h))
    outside = float(np.linalg.norm(h - U @ (U.T @ h)))
    f = before.A @ h
    record = fit_record(f, values[0] * right[0], after.weights, turn=True, positive=nonnegative)
    found = PartialDiagnostics(
        inside=U.T @ f,
        right=right[0],
        outside_share=outside / size if size > 0 else 0.0,
        margin=record.margin,
    )
    block = Block.of_sample(record.label, record.feature, after.c)
    return Recovered(record.label, record.feature, block, None, found)


RECOVERIES = (Recovery("partial", "one record as far as too few responses determine it", partial, "head"),)
