"""A head that acts on the data's leading directions only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from scipy.linalg import eigh

from exhume.defence.release._base import Rule, at_least
from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Occasion

__all__ = ["TopEigenspace"]


class TopEigenspace(Rule):
    """Releases the head's part in the ``directions`` leading eigenvectors of the gram.

    All heads then lie in one subspace of that dimension as long as the gram stands still, so no stack of moment probes
    has a higher rank. The subspace moves with the gram: additions of own data reach further. Costs an
    eigendecomposition whenever the gram has changed.

    Parameters
    ----------
    directions
        Dimension of the subspace, below d.
    """

    name = "top-eigenspace"
    about = "the head's part in the gram's leading directions"
    example: ClassVar[Mapping[str, Any]] = {"directions": 1}
    stage = "shape"

    def __init__(self, directions: int) -> None:
        self.directions = at_least("directions", directions, 1)
        self._kept: tuple[Ledger, int, Any] | None = None

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"directions": self.directions}

    def check_size(self, d: int, c: int) -> None:
        """Refuse a ledger of no more dimensions than the subspace has."""
        if self.directions >= d:
            raise InputError("directions", f"below d = {d}", self.directions)

    def release(self, head: Head, occasion: Occasion) -> Head:
        """Return the projected head."""
        basis = self._basis(occasion.ledger)
        return replace(head, weights=basis @ (basis.T @ head.weights))

    def _basis(self, ledger: Ledger) -> Any:
        d = ledger.d
        self.check_size(d, ledger.c)
        # The count moves exactly when the gram does.
        if self._kept is None or self._kept[0] is not ledger or self._kept[1] != ledger.changes:
            vectors = eigh(ledger.summary.gram, subset_by_index=[d - self.directions, d - 1])[1]
            self._kept = ledger, ledger.changes, vectors
        return self._kept[2]


RULES = (TopEigenspace,)
