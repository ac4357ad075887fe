"""Identification of a server that chooses its ridge anew with every message: one unknown ridge per response.

Such a server answers with ``(S + P_j + g_j I) W_j = G + Q_j``. With ``A = S + g_0 I`` and ``t_j = g_j - g_0`` that is
``A X_j + t_j W_j = Z_j``: linear in A and the t_j together. What says the t_j apart from A is that A is one and
symmetric: ``Z - [t_j W_j]`` must vanish where X does, and its quotient by X must be symmetric.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import lstsq, svd

from exhume.attack.coordinates import Coordinates
from exhume.attack.estimate.base import Estimator, solving, within
from exhume.attack.estimate.direct import direct
from exhume.attack.state import State, diagnose_rank
from exhume.attack.transcript import Transcript
from exhume.errors import NotIdentifiedError
from exhume.numerics import RANK_TOLERANCE, Matrix

__all__ = ["ESTIMATORS", "ridges"]


def ridges(transcript: Transcript, *, tolerance: float = RANK_TOLERANCE) -> State:
    """Estimate the state at the baseline's ridge, and the other ridges with it.

    Raises
    ------
    NotIdentifiedError
        If a stack is rank deficient, there are fewer equations than unknowns, or the estimate is not positive definite.
    """

    def estimate(run: Transcript, _: Coordinates | None) -> State:
        # The head after the cancellation has a ridge of its own too: that it is another one is no error.
        held = replace(run, Z=run.Z - _shares(run, ridge_changes(run, tolerance)), final=None)
        return direct(held, tolerance=tolerance)

    # A ridge that changes probes every coordinate that carries weight: dead are those only in which no head has any.
    try:
        return within(replace(transcript, coordinates=Coordinates.of_rows(transcript.X.T)), estimate)
    except NotIdentifiedError:
        if transcript.coordinates is None:
            raise
        return within(transcript, estimate)  # a ridge that stayed: what is dead to the probe is dead to it


def ridge_changes(run: Transcript, tolerance: float = RANK_TOLERANCE) -> Matrix:
    """Return by how much the ridge behind each response differs from the one behind the baseline."""
    d, columns = run.X.shape
    with solving():
        found, _, _ = diagnose_rank(run, tolerance)
        left, values, right = svd(run.X, full_matrices=True, check_finite=False)
    if found.rank_X < d:  # Z may well be short of rank: the ridges make up for it
        raise NotIdentifiedError(f"rank deficient: rank(X) = {found.rank_X}, needed {d}", found)
    if d * (columns - d) + d * (d - 1) // 2 < run.responses:
        raise NotIdentifiedError(f"too few responses to tell {run.responses} ridges from the state", found)
    # In the basis of X's left vectors, A = C / values; symmetric A means C_ij values_i = C_ji values_j.
    turned = [left.T @ (run.baseline.weights + run.X[:, at]) @ right[:, at].T for at in _columns(run)]
    sides = [_conditions(block, values) for block in turned]
    answer, *_ = lstsq(np.stack(sides, axis=1), _conditions(left.T @ run.Z @ right.T, values), check_finite=False)
    return np.asarray(answer)


def _conditions(block: Matrix, values: Matrix) -> Matrix:
    """Return what must vanish of a right-hand side in the singular bases: outside X's row space, and antisymmetric."""
    d = len(values)
    upper = np.triu_indices(d, 1)
    # C_ij / s_j - C_ji / s_i, divided by what an error of one size in both makes of it.
    scaled = block[:, :d] * values[:, None]
    antisymmetric = (scaled - scaled.T) / np.hypot(values[:, None], values[None, :])
    return np.concatenate([block[:, d:].ravel(), antisymmetric[upper]])


def _columns(run: Transcript) -> list[slice]:
    return [slice(j * run.c, (j + 1) * run.c) for j in range(run.responses)]


def _shares(run: Transcript, changes: Matrix) -> Matrix:
    """Return ``[t_j W_j]``."""
    heads = np.tile(run.baseline.weights, run.responses) + run.X
    return np.asarray(heads * np.repeat(changes, run.c))


ESTIMATORS = (
    Estimator("ridges", "A and one ridge per response together; for servers that choose it with every message", ridges),
)
