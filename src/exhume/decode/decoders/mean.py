"""`mean`: the mean picture of the training rows, whatever the feature; the null that needs no leak at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from exhume.decode._base import Array, Decoder, DecoderEntry, Examples, Learnt, Pixels, Tick

__all__ = ["DECODERS", "MeanPicture"]


@dataclass
class MeanPicture(Decoder):
    """The mean picture."""

    name: ClassVar[str] = "mean"

    def _fit(self, rows: Examples, seed: int, tick: Tick | None) -> Learnt:
        flat = rows.flat
        mean = flat.mean(axis=0)
        return Learnt({"mean": mean}, float(np.mean((flat - mean) ** 2)))

    def _decode(self, features: Array, labels: Array | None, generator: np.random.Generator) -> Pixels:
        return np.repeat(self.state["mean"][None], len(features), axis=0)


DECODERS = (DecoderEntry("mean", "the mean training picture: a null that knows nothing of the record", MeanPicture),)
