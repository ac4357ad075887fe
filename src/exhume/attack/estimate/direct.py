"""Identification of a hidden state from the stacks of a probe run (Theorem 1, Algorithm 1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from exhume.attack._linalg import Positive, smallest_eigenvalue, symmetric_part
from exhume.attack.coordinates import Coordinates
from exhume.attack.estimate.base import READ_OFF_FROM, Estimator, arithmetic_noise, solving, within
from exhume.attack.estimate.read_off import read_off
from exhume.attack.state import State, diagnose_rank
from exhume.attack.transcript import Transcript
from exhume.errors import NotIdentifiedError
from exhume.numerics import DENOMINATOR_FLOOR, RANK_TOLERANCE

__all__ = ["ESTIMATORS", "direct"]


def direct(transcript: Transcript, *, tolerance: float = RANK_TOLERANCE) -> State:
    """Estimate the state: ``A = Z X^+`` and, independently, ``H = X Z^+``, both by QR.

    From `READ_OFF_FROM` features on, the answers to a designed probe are read off instead (`read_off`): A is then the
    inverse of H, and the diagnostics that compare two independent estimates are left out.

    Raises
    ------
    NotIdentifiedError
        If either stack is rank deficient at the tolerance, or either symmetrised estimate is not positive definite. The
        error carries the diagnostics so far.
    """

    def estimate(run: Transcript, _: Coordinates | None) -> State:
        read = read_off(run, tolerance=tolerance, alone=True) if run.d >= READ_OFF_FROM else None
        return read or _direct(run, tolerance)

    return within(transcript, estimate)


def _direct(transcript: Transcript, tolerance: float) -> State:
    with solving():
        found, factor_X, factor_Z = diagnose_rank(transcript, tolerance)
    found.require_full_rank()
    d = transcript.d
    with solving(found):
        raw_A, residual_A = factor_X.right_divide(transcript.Z)
        raw_H, residual_H = factor_Z.right_divide(transcript.X)
    (A, asymmetry_A), (H, asymmetry_H) = symmetric_part(raw_A), symmetric_part(raw_H)
    factor = Positive.of(A)
    low_A, low_H = smallest_eigenvalue(A, factor), smallest_eigenvalue(H)
    found = replace(
        found,
        e_AR=residual_A / max(float(np.linalg.norm(transcript.Z)), DENOMINATOR_FLOOR),
        e_HQ=residual_H / max(float(np.linalg.norm(transcript.X)), DENOMINATOR_FLOOR),
        asymmetry_A=asymmetry_A,
        asymmetry_H=asymmetry_H,
        min_eigenvalue_A=low_A,
        min_eigenvalue_H=low_H,
    )
    if factor is None or not (low_A > 0 and low_H > 0):
        raise NotIdentifiedError(
            f"unstable: smallest eigenvalue of A is {low_A:.3g}, of H {low_H:.3g}; both must be positive", found
        )
    product = A @ H
    product.flat[:: d + 1] -= 1.0
    found = replace(found, e_AH=float(np.linalg.norm(product) / np.sqrt(d)))
    noise = arithmetic_noise(transcript, factor.whiten, H)
    return State(A, H, A @ transcript.baseline.weights, transcript.baseline, found, noise=noise)


ESTIMATORS = (Estimator("direct", "A from the stacks, H independently of it (Algorithm 1); for exact heads", direct),)
