"""Pictures between shapes: grey and colour, and from one size to another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import zoom

from exhume.decode._base import Pixels

__all__ = ["in_8_bits", "in_shape"]


def in_shape(pictures: Pixels, shape: tuple[int, ...]) -> Pixels:
    """Return pictures in another shape (H x W, or H x W x 3): grey is repeated, colour averaged, sizes interpolated."""
    planes = pictures[..., None] if pictures.ndim == 3 else pictures
    if len(shape) == 2:
        planes = planes.mean(axis=3, keepdims=True)
    elif planes.shape[3] == 1:
        planes = np.repeat(planes, 3, axis=3)
    if planes.shape[1:3] != tuple(shape[:2]):
        factors = (1, shape[0] / planes.shape[1], shape[1] / planes.shape[2], 1)
        planes = zoom(planes, factors, order=1, mode="nearest", grid_mode=True)
    return np.clip(planes.reshape(len(pictures), *shape), 0.0, 1.0)


def in_8_bits(pictures: Pixels) -> NDArray[np.uint8]:
    """Return pictures from 0 to 1 as 8-bit ones."""
    return np.rint(np.clip(pictures, 0.0, 1.0) * 255).astype(np.uint8)
