"""Features that are encoded when somebody asks for their rows: many of them would not fit into memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.data.encoders import Encoder

__all__ = ["EncodedRows"]

_TOGETHER = 512


class EncodedRows:
    """The features of some images as an array of float64 that can be indexed by rows, and nothing more.

    A row that is encoded alone and one that is encoded among others differ by the rounding of float32: to ask twice for
    the same rows gives the same numbers, to ask for them in another company does not, in the last bits.

    Parameters
    ----------
    model
        The encoder.
    images
        What it encodes, one a row.
    """

    ndim = 2
    dtype = np.dtype(np.float64)

    def __init__(self, model: Encoder, images: NDArray[np.generic]) -> None:
        self._model, self._images = model, images

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return len(self._images), self._model.dim

    @property
    def nbytes(self) -> int:
        """The memory that is held: that of the images."""
        return int(self._images.nbytes)

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, rows: Any) -> NDArray[np.float64]:
        """Return the features of one row, or of several: a slice, row numbers or a mask."""
        wanted = np.arange(len(self._images))[rows]
        if wanted.ndim == 0:
            only: NDArray[np.float64] = self[wanted[None]][0]
            return only
        found = np.empty((len(wanted), self._model.dim))
        for at in range(0, len(wanted), _TOGETHER):
            found[at : at + _TOGETHER] = self._model.encode(self._images[wanted[at : at + _TOGETHER]])
        return found
