"""The judge of decoders: one set of deleted records, scored in the same way whatever drew the pictures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from exhume.data import ImageSet, encoders
from exhume.data.extract import encode
from exhume.decode._base import Array, Pixels
from exhume.decode.images import in_8_bits
from exhume.decode.measures import Scores, nearest, psnr, ssim
from exhume.errors import InputError
from exhume.numerics import Rows

__all__ = ["CROWD", "SECOND", "Judge"]

CROWD = 1000
"""Among how many pictures a record is looked for."""

SECOND = "mobilenetv2"
"""The encoder that no decoder has seen, for a second opinion."""

BATCH = 64


@dataclass(frozen=True, eq=False)
class Judge:
    """Knows the deleted records and a crowd to hide them in.

    Attributes
    ----------
    images : ImageSet
        The data set. The records and the crowd are of its train rows; the labelled neighbours are its test rows.
    deleted : array of int
        The deleted records.
    crowd : array of int
        All candidates for re-identification: the deleted records first, then others.
    home : path
        Home folder, for the second encoder's weights.
    second : bool
        Whether to ask the second encoder, which needs torch.
    """

    images: ImageSet
    deleted: Rows
    crowd: Rows
    home: Path
    second: bool = True

    @classmethod
    def of(cls, images: ImageSet, deleted: Rows, home: Path, *, seed: int = 0, second: bool = True) -> Judge:
        """Draw the crowd among the train rows."""
        if len(np.unique(deleted)) != len(deleted):
            raise InputError("deleted", "different records", f"{len(deleted)} with repetitions")
        others = np.setdiff1d(np.arange(len(images.train_images)), deleted)
        wanted = min(max(CROWD - len(deleted), 0), len(others))
        drawn = np.random.default_rng(seed).choice(others, wanted, replace=False)
        return cls(images, deleted, np.concatenate([deleted, drawn]).astype(np.intp), home, second)

    @property
    def targets(self) -> Pixels:
        """The deleted records' own pictures."""
        return self.images.train_images[self.deleted] / 255.0

    @property
    def _crowd(self) -> Array:
        return _crowd(self.images, self.crowd.tobytes(), self.home)

    def score(self, pictures: Pixels, found: NDArray[np.bool_] | None = None) -> Scores:
        """Score one picture per deleted record.

        Parameters
        ----------
        pictures : array
            In the records' shape and order.
        found : array of bool, optional
            False for records of which nothing was recovered: they count as failures in every measure, with the PSNR
            and similarity of what stands in for them.
        """
        count = len(self.deleted)
        known = np.ones(count, bool) if found is None else found
        labels = self.images.train_labels[self.deleted]
        neighbours = self.images.test_labels[nearest(pictures, self.images.test_images / 255.0)]
        among = nearest(pictures, self.images.train_images[self.crowd] / 255.0)
        second = nearest(_see(in_8_bits(pictures), self.home), self._crowd) if self.second else None
        return Scores(
            psnr(pictures, self.targets),
            ssim(pictures, self.targets),
            (neighbours == labels) & known,
            (among == np.arange(count)) & known,
            None if second is None else (second == np.arange(count)) & known,
        )


@lru_cache(maxsize=2)
def _crowd(images: ImageSet, rows: bytes, home: Path) -> Array:
    """Return what the second encoder makes of a crowd; kept, since several judges may share one."""
    return _see(images.train_images[np.frombuffer(rows, np.intp)], home)


def _see(images: NDArray[np.uint8], home: Path) -> Array:
    """Return what the second encoder makes of pictures, scaled to length 1: directions are compared."""
    width = int(np.prod(images.shape[1:]))
    features = encode(encoders.build(SECOND, encoders.Options(width, home=home)), images, BATCH)
    scaled: Array = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    return scaled
