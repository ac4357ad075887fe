"""Pictures of features whose encoder cannot be undone: a decoder of the attacker's own rows, and its null beside it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from exhume.decode import Decoder, available, build
from exhume.numerics import Matrix, Rows

__all__ = ["LocalReader", "available"]


class LocalReader:
    """Draws recovered features with a network that was trained on the attacker's own pictures and features alone.

    Parameters
    ----------
    features, images, labels
        What the attacker holds.
    encoder
        Name of the encoder.
    """

    how = (
        "a small network (exhume.decode, mlp) that was trained on the attacker's own pictures and features; bottom "
        "row: the null, the mean of the attacker's own pictures of the recovered label, which takes no feature to draw"
    )

    def __init__(self, features: Matrix, images: NDArray[np.uint8], labels: Rows, encoder: str) -> None:
        self.width = int(np.prod(images.shape[1:]))
        self._encoder = encoder
        self._decoder = build("mlp").fit(features, images, encoder=encoder)
        self._null = build("class-mean").fit(features, images, labels=labels, encoder=encoder)

    def read(self, feature: Matrix) -> Matrix:
        """Return the pixels of one recovered feature vector, from 0 to 1."""
        return self._draw(self._decoder, feature)

    def null(self, feature: Matrix, label: int) -> Matrix:
        """Return the pixels that the recovered label alone gives."""
        return self._draw(self._null, feature, np.array([label]))

    def _draw(self, decoder: Decoder, feature: Matrix, labels: Rows | None = None) -> Matrix:
        rng = np.random.default_rng(0)
        return decoder.decode(feature[None], generator=rng, labels=labels, encoder=self._encoder).reshape(-1)
