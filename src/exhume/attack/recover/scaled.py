"""One deleted record from a state and a head that are known only up to scale, as labels show them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, svd

from exhume.attack.block import Block
from exhume.attack.estimate.scaled import Scaled
from exhume.attack.recover.base import Recovered
from exhume.numerics import Matrix, symmetric

__all__ = ["ScaledDiagnostics", "up_to_scale"]


@dataclass(frozen=True)
class ScaledDiagnostics:
    """How clearly the label won."""

    margin: float
    factor: float
    """What brings the later head to the state's unit."""


def up_to_scale(state: Scaled, after: Matrix) -> Recovered:
    """Read one deleted record from a state up to scale and a head after it, of unknown shift and scale.

    The head's factor is the one that makes the change one of rank one. Then ``r = t e_k D - x (W'u) D`` is linear in t
    and x for every class k, whatever the state's own unit; the class with the least misfit wins. The feature comes out
    up to its length.
    """
    D = state.contrasts
    U = after @ D
    L = cholesky(symmetric(np.asarray(np.linalg.inv(state.H), dtype=np.float64)), lower=True)
    factor = _factor(L.T @ state.baseline, L.T @ U)
    left, values, right = svd(L.T @ (state.baseline - factor * U), full_matrices=False)
    u = L @ left[:, 0]
    if u.sum() < 0:
        u, right = -u, -right
    r, q = values[0] * right[0], (factor * U).T @ u
    misfit = [
        float(np.linalg.norm(r - B @ np.linalg.lstsq(B, r, rcond=None)[0]))
        for B in (np.column_stack([D[k], q]) for k in range(len(D)))
    ]
    order = np.argsort(misfit)
    margin = misfit[order[1]] / max(misfit[order[0]], 1e-300)
    label = int(order[0])
    return Recovered(label, u, Block.of_sample(label, u, len(D)), margin > 2.0, ScaledDiagnostics(margin, factor))


def _factor(one: Matrix, other: Matrix) -> float:
    """Return the x for which ``one - x other`` is nearest to rank one: a generalised eigenvalue that repeats.

    For a change of rank one all but one of the eigenvalues of ``other^+ one`` are x.
    """
    values = np.sort(np.linalg.eigvals(np.linalg.lstsq(other, one, rcond=None)[0]).real)
    return float(np.median(values))
