"""`ridge`: the best linear map from features to pixels; its penalty is chosen by leave-one-out error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from exhume.decode._base import Array, Decoder, DecoderEntry, Examples, Learnt, Pixels, Tick
from exhume.decode.linear import Linear, fit_linear

__all__ = ["DECODERS", "Ridge"]


@dataclass
class Ridge(Decoder):
    """Ridge regression from standardised features to pixels."""

    name: ClassVar[str] = "ridge"

    def _fit(self, rows: Examples, seed: int, tick: Tick | None) -> Learnt:
        flat = rows.flat
        linear = fit_linear(rows.features, flat)
        loss = float(np.mean((linear(rows.features) - flat) ** 2))
        return Learnt(linear.arrays(), loss)

    def _decode(self, features: Array, labels: Array | None, generator: np.random.Generator) -> Pixels:
        return Linear.of(self.state)(features)


DECODERS = (DecoderEntry("ridge", "ridge regression from features to pixels, closed form", Ridge),)
