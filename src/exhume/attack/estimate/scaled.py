"""Identification from heads that are known only up to a shift over classes and a scale each, as labels show them.

With ``U_j`` the contrasts of head j up to a factor, ``H Q_j D = b_j U_j - b_0 U_0`` for moment probes Q_j (D removes
the common shift). All unknowns are linear and the equations homogeneous. For a square stack of probes H is a
combination of known matrices with the b as weights, and H is symmetric: the weights span the null space of their
asymmetries. H comes out up to one number, and every head in the same unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space, svd

from exhume.attack._line import line
from exhume.errors import InputError, NotIdentifiedError
from exhume.numerics import Matrix, symmetric

__all__ = ["Scaled", "scaled"]


@dataclass(frozen=True, repr=False)
class Scaled:
    """A state up to one number s: the true inverse is ``s H``, the true contrasts of a head ``s`` times these."""

    H: Matrix
    baseline: Matrix
    """Contrasts ``W_0 D`` of the baseline, d x (c - 1)."""
    contrasts: Matrix
    """D, c x (c - 1)."""
    gap: float
    """Smallest over second-smallest singular value of the asymmetries: small where one answer is singled out."""

    def __repr__(self) -> str:
        return line(self, d=len(self.H), gap=self.gap)


def scaled(baseline: Matrix, heads: Sequence[Matrix], totals: Sequence[Matrix]) -> Scaled:
    """Estimate H up to one number from heads of unknown shift and scale.

    Parameters
    ----------
    baseline, heads
        The heads before any probe and at each, d x c, each up to a shift over classes and a positive factor.
    totals
        The moment totals Q_j that stood; their contrasts must have rank d, so at least ceil(d / (c - 1)) of them.
    """
    d, c = baseline.shape
    if len(heads) != len(totals) or not heads:
        raise InputError("heads, totals", "as many heads as totals, at least one", (len(heads), len(totals)))
    D = null_space(np.ones((1, c)))
    Z = np.hstack([total @ D for total in totals])
    if np.linalg.matrix_rank(Z) < d:
        raise NotIdentifiedError(f"rank deficient: the contrasts of the probes have rank below {d}", None)
    back = np.linalg.pinv(Z)
    width = D.shape[1]
    shares = [-np.tile(baseline @ D, len(heads)) @ back]
    shares += [head @ D @ back[j * width : (j + 1) * width] for j, head in enumerate(heads)]
    i, j = np.triu_indices(d, 1)
    table = np.column_stack([(share - share.T)[i, j] for share in shares])
    size = np.linalg.norm(table, axis=0)
    _, values, right = svd(table / size, full_matrices=False, check_finite=False)
    weights = right[-1] / size
    weights = weights * np.sign(weights[0])
    H = symmetric(np.asarray(np.tensordot(weights, np.stack(shares), axes=1)))
    if np.linalg.eigvalsh(H)[0] <= 0:
        raise NotIdentifiedError("unstable: H up to scale is not positive definite", None)
    return Scaled(H, weights[0] * (baseline @ D), D, float(values[-1] / values[-2]))
