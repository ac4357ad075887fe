"""Identification from rounded heads: the same stacks, an estimate that knows where the noise is.

Rounding disturbs the returned heads, that is X, while Z is nearly exact. The paper's ``A = Z X^+`` regresses the exact
side on the noisy one. Here X is regressed on Z, over symmetric matrices, with the baseline as one more response instead
of a noise that every column shares: ``H = argmin |X - H Z|_F, H = H'``. A is then the inverse of H, by Cholesky: the
design's rule against inverting an estimated H holds for Algorithm 1, whose H is a check, not for this estimate.
docs/attack.md has what it gains, and what was tried and dropped.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from exhume.attack._linalg import Positive, SingleEntries, StackFactor, smallest_eigenvalue
from exhume.attack.coordinates import Coordinates
from exhume.attack.estimate.base import READ_OFF_FROM, Estimator, arithmetic_noise, solving, within
from exhume.attack.estimate.read_off import read_off
from exhume.attack.state import Diagnostics, State, diagnose_rank
from exhume.attack.transcript import Transcript
from exhume.errors import NotIdentifiedError
from exhume.numerics import RANK_TOLERANCE, Matrix, relative
from exhume.numerics import symmetric as symmetrised
from exhume.protocol.head import Head

__all__ = ["ESTIMATORS", "symmetric"]


def symmetric(transcript: Transcript, *, tolerance: float = RANK_TOLERANCE, guess: Matrix | None = None) -> State:
    """Estimate a state from rounded heads by symmetric regression of X on Z.

    Parameters
    ----------
    transcript
        The stacks of a probe run.
    tolerance
        Rank tolerance, as in `direct`.
    guess
        A rough positive definite guess of A (`gram_guess` of the attacker's own rows will do). With it, an estimate of
        H that is not positive definite is clipped in that metric, at the noise level that its negative eigenvalues
        show; without it, such an estimate is a failure.

    Raises
    ------
    NotIdentifiedError
        If a stack is rank deficient, or the estimate not positive definite.
    """

    def estimate(run: Transcript, at: Coordinates | None) -> State:
        read = read_off(run, tolerance=tolerance, alone=guess is None) if run.d >= READ_OFF_FROM else None
        if read is not None:
            return read
        with solving():
            found, _, factor_Z = diagnose_rank(run, tolerance)
        found.require_full_rank()
        with solving(found):
            return _estimated(run, found, factor_Z, guess if guess is None or at is None else at.square(guess))

    return within(transcript, estimate)


def _estimated(
    transcript: Transcript, found: Diagnostics, factor_Z: StackFactor | SingleEntries, guess: Matrix | None
) -> State:
    d = transcript.d
    # A moment probe's responses dwarf the baseline, whose error then hardly counts; additions leave all heads alike.
    still = np.zeros((d, transcript.c))
    X, Z, shift_X, shift_Z = (
        (transcript.X, transcript.Z, still, still) if transcript.moment_only else _centred(transcript)
    )
    factor_Z = factor_Z if transcript.moment_only else StackFactor.of(Z)
    H = factor_Z.right_divide_symmetric(X)
    low_H = smallest_eigenvalue(H)
    if low_H <= 0:
        if guess is None:
            raise NotIdentifiedError(
                f"unstable: smallest eigenvalue of H is {low_H:.3g}, must be positive",
                replace(found, min_eigenvalue_H=low_H),
            )
        H = _clipped(H, guess)
    factor = Positive.of(H)
    if factor is None:
        raise np.linalg.LinAlgError("H is not positive definite")
    A = symmetrised(factor.solve(np.eye(d)))
    # The mean equation A mean(W_j) = G + mean(Z_j): the baseline's own rounding is averaged over all responses.
    G = A @ (transcript.baseline.weights + shift_X) - shift_Z
    found = replace(
        found,
        e_AR=relative(A @ X - Z, Z),
        e_HQ=relative(X - H @ Z, X),
        min_eigenvalue_A=smallest_eigenvalue(A),
        min_eigenvalue_H=low_H,
    )
    start = Head(H @ G, transcript.baseline.precision)
    return State(A, H, G, start, found, noise=arithmetic_noise(transcript, factor.divide, H))


def _centred(transcript: Transcript) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Return X and Z with the baseline as response 0 and the mean response removed, and the two means (d x c)."""
    d, c = transcript.d, transcript.c
    stacks, means = [], []
    for stack in (transcript.X, transcript.Z):
        cube = np.concatenate([np.zeros((d, 1, c)), stack.reshape(d, -1, c)], axis=1)
        mean = cube.mean(axis=1)
        stacks.append(np.ascontiguousarray((cube - mean[:, None, :]).reshape(d, -1)))
        means.append(mean)
    return stacks[0], stacks[1], means[0], means[1]


def _clipped(H: Matrix, metric: Matrix) -> Matrix:
    """Make H positive definite: eigenvalues of ``L' H L`` (metric = L L') are raised to the noise level."""
    L = cholesky(metric, lower=True)
    values, vectors = eigh(symmetrised(L.T @ H @ L))
    raised = np.maximum(values, max(1e-5 * values[-1], -values[0]))
    back = solve_triangular(L.T, vectors, lower=False)
    return symmetrised((back * raised) @ back.T)


ESTIMATORS = (
    Estimator("symmetric", "X regressed on Z over symmetric matrices, then inverted; for rounded heads", symmetric),
)
