"""`random-relu`: a frozen random projection followed by ReLU, as in RanPAC; NumPy only, any width."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from exhume.data.encoders._base import Encoder, EncoderEntry, Features32, Options
from exhume.data.files import digest_of
from exhume.errors import InputError

__all__ = ["ENCODERS", "RandomRelu"]

DEFAULT_DIM = 512


@dataclass(frozen=True)
class RandomRelu:
    """ReLU of a standard normal projection of each row.

    Pixels are first scaled to [0, 1] and each image centred on its own mean: pixels are never negative, so that
    without it many units would be zero, or linear, on every image. Rows that are not pixels are left alone.
    """

    width: int
    dim: int
    seed: int
    name: str = "random-relu"
    device: str = "cpu"

    @property
    def fingerprint(self) -> str:
        """Hash of what fixes the projection: its shape, its seed and its scale."""
        return digest_of(
            {"encoder": self.name, "width": self.width, "dim": self.dim, "seed": self.seed, "pixels": "centred"}
        )

    @cached_property
    def projection(self) -> Features32:
        """The frozen matrix, width x dim."""
        rng = np.random.default_rng(self.seed)
        return rng.standard_normal((self.width, self.dim)).astype(np.float32)

    def encode(self, images: NDArray[np.generic]) -> Features32:
        """Features of one batch."""
        rows = images.reshape(len(images), -1).astype(np.float32)
        if images.dtype == np.uint8:
            rows /= np.float32(255)
            rows -= rows.mean(axis=1, keepdims=True)
        features: Features32 = np.maximum(rows @ self.projection, np.float32(0))
        return features


def _build(options: Options) -> Encoder:
    dim = DEFAULT_DIM if options.dim is None else options.dim
    if dim < 1:
        raise InputError("dim", "at least 1", dim)
    if options.seed < 0:
        raise InputError("seed", "at least 0", options.seed)
    return RandomRelu(options.width, dim, options.seed)


ENCODERS = (
    EncoderEntry("random-relu", "frozen random projection with ReLU, as in RanPAC; any --dim, seeded", None, _build),
)
