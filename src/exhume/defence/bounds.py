"""Public bounds on what one client can move: the length of a feature, the rows of a message and of a client."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from exhume.errors import InputError

__all__ = ["HOW_TO_MEASURE", "MARGIN", "Bounds"]

MARGIN = 1.25
"""How many times the operator's own longest row an honest row may be long, unless told otherwise."""

HOW_TO_MEASURE = (
    "public bounds; measure them on rows of your own: bounds=exhume.defence.Bounds.measure(features, client_rows=...)"
)
"""What an error says where bounds are missing."""


@dataclass(frozen=True)
class Bounds:
    """What every client may know and must keep to.

    Rows count by weight where a message neither shows nor declares them: a gram of trace t counts as ``t / longest^2``
    rows, the fewest that can have made it.
    """

    longest: float
    """Largest Euclidean length of a feature vector."""
    message_rows: int
    """Most rows in one message, on each side."""
    client_rows: int
    """Most rows that one client may have standing."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.longest) and self.longest > 0):
            raise InputError("longest", "a finite number above 0", self.longest)
        for name in ("message_rows", "client_rows"):
            value = getattr(self, name)
            if isinstance(value, bool) or int(value) != value or value < 1:
                raise InputError(name, "a whole number, at least 1", value)

    @classmethod
    def measure(
        cls, features: ArrayLike, *, client_rows: int, message_rows: int | None = None, margin: float = MARGIN
    ) -> Bounds:
        """Return bounds for rows like some of the operator's own.

        Parameters
        ----------
        features
            Rows of the operator's, from the encoder that the clients use.
        client_rows
            Most rows that the operator expects of one client.
        message_rows
            Most rows of one message; as many as of a client if not given.
        margin
            How many times the longest of these rows a client's may be long. An honest row beyond it is refused: where
            the encoder does not normalise, take more rows rather than a larger margin.
        """
        rows = np.asarray(features, dtype=np.float64)
        if rows.ndim != 2 or not len(rows) or not np.isfinite(rows).all():
            raise InputError("features", "at least one row of finite features", f"shape {rows.shape}")
        if not margin >= 1:
            raise InputError("margin", "at least 1", margin)
        longest = float(np.linalg.norm(rows, axis=1).max())
        return cls(margin * longest, client_rows if message_rows is None else message_rows, client_rows)

    def options(self) -> dict[str, float]:
        """Return them as options of a rule."""
        return asdict(self)
