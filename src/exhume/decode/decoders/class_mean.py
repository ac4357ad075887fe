"""`class-mean`: the mean picture of the recovered label; the null that knows the label and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from exhume.decode._base import Array, Decoder, DecoderEntry, Examples, Learnt, Pixels, Tick
from exhume.errors import InputError

__all__ = ["DECODERS", "ClassMean"]


@dataclass
class ClassMean(Decoder):
    """The mean picture of a class; that of all rows for a class that the training rows lack."""

    name: ClassVar[str] = "class-mean"

    def _fit(self, rows: Examples, seed: int, tick: Tick | None) -> Learnt:
        if rows.labels is None:
            raise InputError("labels", "given: the class-mean decoder learns a picture of each", None)
        flat = rows.flat
        means = np.repeat(flat.mean(axis=0)[None], int(rows.labels.max()) + 2, axis=0)
        for label in np.unique(rows.labels):
            means[label] = flat[rows.labels == label].mean(axis=0)
        return Learnt({"means": means}, float(np.mean((flat - means[rows.labels]) ** 2)))

    def _decode(self, features: Array, labels: Array | None, generator: np.random.Generator) -> Pixels:
        if labels is None:
            raise InputError("labels", "given: the class-mean decoder draws the recovered label", None)
        means = self.state["means"]
        # The last row is the mean of all, for labels beyond those that were seen.
        picked: Pixels = means[np.minimum(labels, len(means) - 1)]
        return picked


DECODERS = (
    DecoderEntry(
        "class-mean", "the mean training picture of the recovered label: a null that knows the label", ClassMean
    ),
)
