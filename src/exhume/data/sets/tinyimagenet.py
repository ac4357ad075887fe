"""`tinyimagenet`: 30,000 pictures of TinyImageNet, reduced to 32 pixels; what decoders of public images learn from.

One file holds the original JPEG bytes. No registry has it: put it in a folder on EXHUME_DATA_PATH. The train rows go
round the 200 classes in turn, so that every prefix of a multiple of 200 is balanced; the test rows are from
TinyImageNet's own validation split.
"""

from __future__ import annotations

import io
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from exhume.data.catalogue import Holding, Item
from exhume.data.sets._base import DataSet, Images, ImageSet
from exhume.errors import DataError, MissingExtraError

__all__ = ["DATA_SETS", "SIDE"]

SIDE = 32
"""Pixels of a side: the targets (CIFAR-10 32, MNIST 28) reach the encoder that blurred, so public images must too."""

FILE = "tinyimagenet_aux.npz"
CLASSES = 200
TRAIN_ROWS, TEST_ROWS = 29_000, 1_000

HOLDING = Holding(
    "tinyimagenet",
    "data",
    (
        Item(
            FILE,
            "6bc3c71c1ae6766fc6059b9d9258e972407196d23a601936d7bdf30686001c0a",
            60_681_100,
            "the file of 30,000 original JPEGs that decoders were first measured with",
        ),
    ),
)


def _read(folder: Path) -> ImageSet:
    path = folder / FILE
    try:
        with np.load(path, allow_pickle=False) as archive:
            content, offsets = archive["jpeg"].tobytes(), archive["offsets"].astype(np.int64)
            labels, held_out = archive["labels"].astype(np.intp), archive["split"] == 1
    except (OSError, ValueError, KeyError, BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is not the file of TinyImageNet's JPEGs: {error}") from error
    images = _reduced(content, offsets)
    return ImageSet(
        "tinyimagenet",
        images[~held_out],
        labels[~held_out],
        images[held_out],
        labels[held_out],
        CLASSES,
        HOLDING.sha256,
    )


def _reduced(content: bytes, offsets: NDArray[np.int64]) -> Images:
    """Return all pictures in colour, each square of pixels averaged to one so that a side has SIDE."""
    try:
        image: Any = import_module("PIL.Image")
    except ImportError as error:
        raise MissingExtraError("reading TinyImageNet's JPEGs", "vision") from error
    images = np.empty((len(offsets) - 1, SIDE, SIDE, 3), np.uint8)
    for i in range(len(images)):
        with image.open(io.BytesIO(content[offsets[i] : offsets[i + 1]])) as picture:
            # Some are stored in grey.
            images[i] = np.asarray(picture.convert("RGB").resize((SIDE, SIDE), image.Resampling.BOX))
    return images


DATA_SETS = (
    DataSet(
        name="tinyimagenet",
        about="colour pictures of 200 kinds of things, reduced to 32 x 32; auxiliary images for decoders",
        shape=(SIDE, SIDE, 3),
        classes=CLASSES,
        train_rows=TRAIN_ROWS,
        test_rows=TEST_ROWS,
        sha256=HOLDING.sha256,
        read=_read,
        holding=HOLDING,
    ),
)
