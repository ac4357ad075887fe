"""`none`: the numbers of each row as they are, flattened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exhume.data.encoders._base import Encoder, EncoderEntry, Features32, Options
from exhume.data.files import digest_of
from exhume.errors import InputError

__all__ = ["ENCODERS", "Flatten"]


@dataclass(frozen=True)
class Flatten:
    """Each row's own numbers; pixels stay on their 0 to 255 scale."""

    dim: int
    name: str = "none"
    device: str = "cpu"

    @property
    def fingerprint(self) -> str:
        """Hash of the name and the width: there is nothing else."""
        return digest_of({"encoder": self.name, "dim": self.dim})

    def encode(self, images: NDArray[np.generic]) -> Features32:
        """Features of one batch."""
        return images.reshape(len(images), -1).astype(np.float32)


def _build(options: Options) -> Encoder:
    if options.dim not in (None, options.width):
        raise InputError("dim", f"{options.width}, the numbers per row, for the none encoder", options.dim)
    return Flatten(options.width)


ENCODERS = (EncoderEntry("none", "the numbers of each row as they are, flattened", None, _build),)
