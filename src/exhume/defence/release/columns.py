"""A head with some of its columns only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from exhume.defence.release._base import Rule
from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.rules import Occasion

__all__ = ["Columns"]


class Columns(Rule):
    """Releases some classes' columns and zeroes the others.

    Parameters
    ----------
    keep
        The classes whose columns are released.
    """

    name = "columns"
    about = "some classes' columns of the head, the others zero"
    example: ClassVar[Mapping[str, Any]] = {"keep": [0]}
    stage = "shape"

    def __init__(self, keep: Sequence[int]) -> None:
        self.keep = tuple(int(k) for k in keep)
        if not self.keep or len(set(self.keep)) < len(self.keep) or min(self.keep) < 0:
            raise InputError("keep", "distinct class numbers from 0, at least one", list(keep))

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"keep": list(self.keep)}

    def check_size(self, d: int, c: int) -> None:
        """Refuse a ledger without these classes."""
        if max(self.keep) >= c:
            raise InputError("keep", f"classes from 0 to {c - 1}", list(self.keep))

    def release(self, head: Head, occasion: Occasion) -> Head:
        """Return the head with the other columns zero."""
        self.check_size(head.d, head.c)
        weights = np.zeros_like(head.weights)
        weights[:, self.keep] = head.weights[:, self.keep]
        return replace(head, weights=weights)


RULES = (Columns,)
