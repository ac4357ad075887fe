"""What a rank-deficient run still determines: A on the span of the responses, all of it but one corner block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import cholesky, solve_triangular, svd

from exhume.attack.estimate.base import Estimator, solving
from exhume.attack.state import State, diagnose_rank
from exhume.attack.transcript import Transcript
from exhume.errors import InputError, NotIdentifiedError
from exhume.numerics import RANK_TOLERANCE, Matrix, symmetric

__all__ = ["ESTIMATORS", "partial"]


def partial(transcript: Transcript, *, tolerance: float = RANK_TOLERANCE, guess: Matrix | None = None) -> State:
    """Return what a run of any rank determines: with ``X = U s V'`` of rank r, ``A U = Z V s^-1``.

    The corner ``(I - UU') A (I - UU')`` is not determined: its Schur complement is that of the guess, or the corner is
    zero. The state's ``basis`` is U, its diagnostics have r as the rank of X.

    Parameters
    ----------
    transcript
        The stacks of a probe run.
    tolerance
        Rank tolerance, as in `direct`.
    guess
        A rough guess of A, d x d.

    Raises
    ------
    NotIdentifiedError
        If the responses determine nothing, or A, completed with a guess, is not positive definite. Without a guess it
        need not be.
    """
    d = transcript.d
    if guess is not None and guess.shape != (d, d):
        raise InputError("guess", f"{d} x {d}", f"shape {guess.shape}")
    with solving():
        found, _, _ = diagnose_rank(transcript, tolerance)
        U, s, Vt = svd(transcript.X, full_matrices=False, check_finite=False)
    r = int(np.count_nonzero(s > tolerance * s[0])) if s.size and s[0] > 0 else 0
    found = replace(found, rank_X=r)
    if r == 0:
        raise NotIdentifiedError(f"the responses determine nothing: rank(X) = 0 ({found.responses} responses)", found)
    with solving(found):
        A = _completed(U[:, :r], (transcript.Z @ Vt[:r].T) / s[:r], guess)
        low = float(np.linalg.eigvalsh(A)[0])
        found = replace(found, min_eigenvalue_A=low)
        if guess is not None and not low > 0:
            raise NotIdentifiedError(
                f"unstable: smallest eigenvalue of A, completed with the guess, is {low:.3g}", found
            )
        # Without a guess A may well be singular.
        H = np.linalg.pinv(A, hermitian=True) if guess is None else np.linalg.inv(A)
    G = A @ transcript.baseline.weights
    return State(A, np.asarray(H), G, transcript.baseline, found, basis=U[:, :r])


def _completed(U: Matrix, K: Matrix, guess: Matrix | None) -> Matrix:
    """Return A from ``K = A U``, what K leaves open taken from the guess, or with a corner of zero.

    A is ``K (U'K)^-1 K'`` plus a Schur complement, which the guess gives: the sum is positive definite if both are,
    where a corner copied from the guess need not fit the rest.
    """
    inner = symmetric(U.T @ K)
    if guess is not None:
        return symmetric(_explained(K, inner) + guess - _explained(guess @ U, symmetric(U.T @ guess @ U)))
    cross = K - U @ (U.T @ K)
    return symmetric(U @ inner @ U.T + cross @ U.T + U @ cross.T)


def _explained(K: Matrix, inner: Matrix) -> Matrix:
    """Return ``K inner^-1 K'``."""
    half = solve_triangular(cholesky(inner, lower=True), K.T, lower=True)
    return np.asarray(half.T @ half)


ESTIMATORS = (Estimator("partial", "A on the span of too few responses, a guess for the rest", partial),)
