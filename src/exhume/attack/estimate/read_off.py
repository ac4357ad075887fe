"""Identification of a large state from a designed probe: H is read off the answers, and A is its inverse.

Every right-hand side of a designed probe has one entry, so that ``X = H Z`` shows H column by column, and the symmetric
H nearest to the answers follows entry by entry. One Cholesky factorisation of it and its inverse cost d^3 operations;
the QR of X, the product with Q and the solve of Algorithm 1 cost 13/3 d^3, with the products of its checks 22/3 d^3.
The inverse is no less accurate (docs/decisions/0036-read-off.md).
"""

from __future__ import annotations

import numpy as np

from exhume.attack._linalg import Positive, SingleEntries, factor_stack
from exhume.attack.estimate.base import READ_OFF_ALONE_FROM, arithmetic_noise, mixtures
from exhume.attack.state import Diagnostics, State
from exhume.attack.transcript import Transcript
from exhume.errors import NotIdentifiedError
from exhume.numerics import DENOMINATOR_FLOOR, RANK_TOLERANCE, Matrix, extremes, relative

__all__ = ["read_off"]


def read_off(transcript: Transcript, *, tolerance: float = RANK_TOLERANCE, alone: bool = False) -> State | None:
    """Estimate the state by reading H off and inverting it.

    The diagnostics are those of `direct` but for the three that need an estimate of A independent of H: ``e_AH`` and
    ``asymmetry_A`` are None, and the singular values of X are those of ``H Z``, from which X differs by ``e_HQ``.

    Parameters
    ----------
    transcript
        The stacks of a probe run.
    tolerance
        Rank tolerance, as in `direct`.
    alone
        Whether no other estimator of many features (`READ_OFF_ALONE_FROM`) would do better.

    Returns
    -------
    State or None
        None where this is no way to the state, so that another estimator has to find it or say what is wrong: another
        probe than a designed one, or an H that is not positive definite or not of full rank.

    Raises
    ------
    NotIdentifiedError
        In place of None for such an H, if ``alone`` and from that size on.
    """
    entries = factor_stack(transcript.Z)
    if not isinstance(entries, SingleEntries):
        return None
    H, left, asymmetry = entries.symmetric_quotient(transcript.X)
    factor = Positive.of(H)
    if factor is None:
        _decline(transcript, alone, "unstable: H is not positive definite")
        return None
    top_H, low_H = extremes(H.__matmul__, factor.solve, transcript.d)
    top_X, low_X = _stretched(H, factor, entries.values, (top_H, low_H))
    top_Z, low_Z, rank_Z = entries.singular_values(tolerance)
    if not (low_X > tolerance * top_X and rank_Z == transcript.d):
        share = f"the smallest singular value of X is {low_X / top_X:.1e} of the largest"
        _decline(transcript, alone, f"rank deficient: {share} (tolerance {tolerance:g})")
        return None
    start, final = transcript.baseline.weights, transcript.final
    noise, G = arithmetic_noise(transcript, factor.divide, H), np.ascontiguousarray(factor.solve(start))
    A = factor.inverse()
    X, Z, _ = mixtures(transcript)
    found = Diagnostics(
        d=transcript.d,
        responses=transcript.responses,
        rank_X=transcript.d,
        rank_Z=rank_Z,
        sigma_max_X=top_X,
        sigma_min_X=low_X,
        sigma_max_Z=top_Z,
        sigma_min_Z=low_Z,
        tolerance=tolerance,
        e_AR=float(np.linalg.norm(A @ X - Z)) / max(entries.norm, DENOMINATOR_FLOOR),
        e_HQ=left / max(float(np.linalg.norm(transcript.X)), DENOMINATOR_FLOOR),
        asymmetry_H=asymmetry,
        min_eigenvalue_A=1.0 / top_H,
        min_eigenvalue_H=low_H,
        r_W=None if final is None else relative(final.weights - start, start),
    )
    return State(A, H, G, transcript.baseline, found, noise=noise)


def _decline(transcript: Transcript, alone: bool, reason: str) -> None:
    """Leave the state to another estimator, unless there are too many features for that."""
    if alone and transcript.d >= READ_OFF_ALONE_FROM:
        raise NotIdentifiedError(f"{reason}, {transcript.responses} responses")


def _stretched(H: Matrix, factor: Positive, values: Matrix, ends: tuple[float, float]) -> tuple[float, float]:
    """Return the extreme singular values of H with its columns times some values, given its own."""
    sizes = np.abs(values)
    if np.ptp(sizes) == 0.0:
        return float(sizes[0]) * ends[0], float(sizes[0]) * ends[1]

    def square(x: Matrix) -> Matrix:
        y: Matrix = (sizes * (H @ (H @ (sizes * x.T).T)).T).T
        return y

    def back(x: Matrix) -> Matrix:
        y: Matrix = (factor.solve(factor.solve((x.T / sizes).T)).T / sizes).T
        return y

    top, low = extremes(square, back, len(H))
    return float(np.sqrt(top)), float(np.sqrt(low))
