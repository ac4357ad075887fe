"""Deletion inference: was this record the one that was deleted? Two heads say (the idea of Gao et al. 2022).

A record pulls the head towards itself. Taken out, its own loss rises; other records' losses hardly move.
"""

from __future__ import annotations

from exhume.attack.state import check_sizes
from exhume.errors import InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.head import Head

__all__ = ["loss_rise"]


def loss_rise(before: Head, after: Head, features: Matrix, labels: Rows) -> Matrix:
    """Return by how much each candidate's squared loss rose between two heads: the deleted one's most, by design.

    Parameters
    ----------
    before, after
        The heads around the deletion.
    features, labels
        Candidate records.
    """
    check_sizes(before, after)
    if features.ndim != 2 or features.shape != (len(labels), before.d):
        raise InputError("features", f"rows of {before.d} features, a label each", f"shape {features.shape}")

    def loss(head: Head) -> Matrix:
        scores = head.scores(features)
        scores[range(len(labels)), labels] -= 1.0
        total: Matrix = (scores**2).sum(axis=1)
        return total

    rise: Matrix = loss(after) - loss(before)
    return rise
