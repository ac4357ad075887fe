"""What a data set is: its description in the registry, and its images once read."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from exhume.data.catalogue import Holding
from exhume.errors import DataError, InputError

__all__ = ["DataSet", "ImageSet", "Images", "read_four_idx", "read_idx", "sha256_of_arrays"]

Images = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ImageSet:
    """The images and labels of a data set, in its own row order.

    Attributes
    ----------
    name : str
        Name of the data set.
    train_images, test_images : array of uint8
        N x H x W for grey images, N x H x W x 3 for colour.
    train_labels, test_labels : array of intp
        Class of each row, from 0.
    classes : int
        Number of classes.
    sha256 : str
        Hash of the content; part of the key of every cache made from it.
    """

    name: str
    train_images: Images
    train_labels: NDArray[np.intp]
    test_images: Images
    test_labels: NDArray[np.intp]
    classes: int
    sha256: str

    def head(self, limit: int | None) -> ImageSet:
        """Return the first `limit` rows of both splits; the whole set for None."""
        if limit is None:
            return self
        if limit < 1:
            raise InputError("limit", "at least 1", limit)
        return replace(
            self,
            train_images=self.train_images[:limit],
            train_labels=self.train_labels[:limit],
            test_images=self.test_images[:limit],
            test_labels=self.test_labels[:limit],
        )


@dataclass(frozen=True)
class DataSet:
    """One entry of the registry: what the data set is, and how its stored files are read.

    Attributes
    ----------
    name, about : str
        Name and one line for people.
    shape : tuple of int
        Shape of one image.
    classes, train_rows, test_rows : int
        Its sizes.
    sha256 : str
        Hash of the content, known before the content is read.
    read : callable
        From the folder of stored files to the images.
    holding : Holding, optional
        The files to fetch; None for a set that is bundled.
    """

    name: str
    about: str
    shape: tuple[int, ...]
    classes: int
    train_rows: int
    test_rows: int
    sha256: str
    read: Callable[[Path], ImageSet]
    holding: Holding | None = None


def sha256_of_arrays(*arrays: NDArray[np.generic]) -> str:
    """SHA-256 over the dtype, shape and bytes of each array in turn."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def read_idx(path: Path) -> Images:
    """Return the array in an unpacked idx file of unsigned bytes."""
    content = path.read_bytes()
    # The header: two zero bytes, 8 for unsigned byte, the number of axes, then each length, big-endian.
    axes = content[3] if content[:3] == b"\x00\x00\x08" and len(content) > 3 else 0
    start = 4 + 4 * axes
    if axes and len(content) >= start:
        shape = [int(length) for length in np.frombuffer(content, ">u4", count=axes, offset=4)]
        if len(content) == start + math.prod(shape):
            return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
    raise DataError(f"{path} is not an idx file of unsigned bytes")


def read_four_idx(name: str, sha256: str, folder: Path) -> ImageSet:
    """Return the images of a set that is stored as MNIST is: four idx files."""
    train_images, test_images = (read_idx(folder / f"{split}-images-idx3-ubyte") for split in ("train", "t10k"))
    train_labels, test_labels = (read_idx(folder / f"{split}-labels-idx1-ubyte") for split in ("train", "t10k"))
    return ImageSet(
        name,
        train_images,
        train_labels.astype(np.intp),
        test_images,
        test_labels.astype(np.intp),
        int(train_labels.max()) + 1,
        sha256,
    )
