"""`retrieval`: the training picture whose feature lies nearest; shows somebody else's picture, and says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from exhume.decode._base import Array, Decoder, DecoderEntry, Examples, Learnt, Pixels, Tick
from exhume.decode.linear import Standard

__all__ = ["DECODERS", "Retrieval"]

BATCH = 256


@dataclass
class Retrieval(Decoder):
    """The nearest neighbour among the training rows, in standardised features."""

    name: ClassVar[str] = "retrieval"

    def _fit(self, rows: Examples, seed: int, tick: Tick | None) -> Learnt:
        standard = Standard.of(rows.features)
        state: dict[str, Array] = {
            "centre": standard.centre,
            "spread": standard.spread,
            "features": standard(rows.features).astype(np.float32),
            "images": rows.images.reshape(len(rows.images), -1),
        }
        return Learnt(state, 0.0)

    def _decode(self, features: Array, labels: Array | None, generator: np.random.Generator) -> Pixels:
        known = self.state["features"]
        lengths = np.einsum("ij,ij->i", known, known)
        wanted = Standard(self.state["centre"], self.state["spread"])(features).astype(np.float32)
        nearest = [
            np.argmin(lengths - 2 * wanted[i : i + BATCH] @ known.T, axis=1) for i in range(0, len(wanted), BATCH)
        ]
        found: Pixels = self.state["images"][np.concatenate(nearest)] / 255.0
        return found


DECODERS = (
    DecoderEntry(
        "retrieval", "the training picture with the nearest feature: another picture, not the record's", Retrieval
    ),
)
