"""What observations cannot tell apart: different states and deletions that look exactly the same.

These are the paper's negative results as constructions. They take hidden values, which an evaluator or a server has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space

from exhume.attack._line import line
from exhume.attack.transcript import Transcript
from exhume.errors import InputError
from exhume.numerics import RANK_TOLERANCE, Matrix

__all__ = ["Alternative", "other_deletion", "other_state", "same_head"]


def other_state(
    A: Matrix, transcript: Transcript, *, size: float = 1.0, tolerance: float = RANK_TOLERANCE
) -> tuple[Matrix, Matrix]:
    """Return another feasible ``(A', G')`` that gives the baseline and every response of a rank-deficient transcript.

    Necessity in Theorem 1: with ``v' X = 0``, take ``A' = A + size |A| v v'`` and ``G' = A' W_0``.
    """
    free = null_space(transcript.X.T, rcond=tolerance)
    if free.shape[1] == 0:
        raise InputError("transcript", f"rank deficient (below {transcript.d})", "a transcript of full rank")
    if not size > 0:
        raise InputError("size", "above 0", size)
    v = free[:, 0]
    other = A + size * float(np.linalg.norm(A, 2)) * np.outer(v, v)
    return other, other @ transcript.baseline.weights


@dataclass(frozen=True, repr=False)
class Alternative:
    """Another state before, and the block deleted from it, that look the same from outside."""

    A_pre: Matrix
    G_pre: Matrix
    gram: Matrix
    moment: Matrix

    def __repr__(self) -> str:
        return line(self, gram=self.gram, moment=self.moment)


def other_deletion(W_pre: Matrix, W_post: Matrix, A_post: Matrix, gram: Matrix) -> Alternative:
    """Return a deletion of any chosen gram that produces both heads (passive heads do not identify a deletion).

    ``A_pre = A_post + gram``, ``G_pre = A_pre W_pre`` and ``G_post = A_post W_post``.
    """
    A_pre = A_post + gram
    G_pre = A_pre @ W_pre
    return Alternative(A_pre, G_pre, gram, G_pre - A_post @ W_post)


def same_head(A: Matrix, G: Matrix, W: Matrix, change: Matrix) -> tuple[Matrix, Matrix]:
    """Return another state with the same head (Lemma 4): ``A + C`` and ``G + C W`` for a symmetric ``C``."""
    if not np.array_equal(change, change.T):
        raise InputError("change", "symmetric", "a matrix that is not")
    return A + change, G + change @ W
