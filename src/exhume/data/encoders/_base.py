"""What an encoder is: its description in the registry, and the thing that turns images into features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from exhume.data.catalogue import Holding

__all__ = ["CPU", "RESIZES", "Encoder", "EncoderEntry", "Features32", "Options"]

Features32 = NDArray[np.float32]
CPU = "cpu"
"""The device of encoders that run without torch."""

RESIZES = ("float", "8-bit")


class Encoder(Protocol):
    """A frozen map from images to features; `fingerprint` names its parameters and preprocessing by hash."""

    @property
    def name(self) -> str:
        """Name in the registry."""

    @property
    def dim(self) -> int:
        """Number of features."""

    @property
    def fingerprint(self) -> str:
        """Hash of the weights or parameters and of the preprocessing."""

    @property
    def device(self) -> str:
        """Torch device; ``"cpu"`` for encoders without torch."""

    def encode(self, images: NDArray[np.generic]) -> Features32:
        """Features of one batch: N x dim, float32."""


@dataclass(frozen=True)
class Options:
    """What a user may choose about an encoder.

    Attributes
    ----------
    width : int
        Numbers per row of the input: pixels times channels.
    dim : int, optional
        Wanted number of features, for encoders that leave it open.
    seed : int
        Seed of random encoders.
    device : str
        Torch device, such as ``"cpu"`` or ``"cuda"``.
    weights : path, optional
        A weight file to use in place of the fetched one.
    sha256 : str, optional
        The hash that `weights` must have.
    home : path, optional
        Home folder in which fetched weights are stored.
    resize : {'float', '8-bit'}
        Whether images are resized as floats, or as 8-bit pictures as torchvision does with PIL images.
    """

    width: int
    dim: int | None = None
    seed: int = 0
    device: str = CPU
    weights: Path | None = None
    sha256: str | None = None
    home: Path | None = None
    resize: str = RESIZES[0]


@dataclass(frozen=True)
class EncoderEntry:
    """One entry of the registry.

    Attributes
    ----------
    name, about : str
        Name and one line for people.
    dim : int or None
        Number of features; None if it is open.
    build : callable
        From options to the encoder; reads no weights and imports no torch.
    holding : Holding, optional
        The weights to fetch.
    extra : str, optional
        The extra of the package that it needs.
    """

    name: str
    about: str
    dim: int | None
    build: Callable[[Options], Encoder]
    holding: Holding | None = None
    extra: str | None = None
