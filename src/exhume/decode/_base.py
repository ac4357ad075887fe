"""What a decoder is: it learns pictures from pairs of features and images, and draws those of other features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from exhume.data.sets import sha256_of_arrays
from exhume.errors import DataError, ExhumeError, InputError

__all__ = ["Array", "Decoder", "DecoderEntry", "Examples", "Learnt", "Pixels", "Tick", "TrainingRecord", "TrainingStep"]

Array = NDArray[Any]
Pixels = NDArray[np.float64]
"""Pictures as decoders give them: N x H x W or N x H x W x 3, from 0 to 1."""


@dataclass(frozen=True)
class TrainingStep:
    """How far a training is: steps done, done by an earlier run, and in all; images per step; the last loss."""

    done: int
    resumed: int
    total: int
    batch: int
    loss: float
    held_out: float | None = None


Tick = Callable[[TrainingStep], None]


@dataclass(frozen=True)
class TrainingRecord:
    """What a decoder was trained on and how; travels with its weights.

    Attributes
    ----------
    decoder, encoder : str
        Names in their registries; the encoder is the one whose features it reads.
    data : str
        SHA-256 of the features, images and labels.
    rows, dim : int
        Number of pairs, and of features in each.
    shape : tuple of int
        Shape of one picture.
    seed, steps : int
        Seed, and steps of training; 0 where there is a closed form.
    loss : float
        Last loss on rows that were not trained on, where the decoder keeps some; else on those that were.
    options : dict
        Everything else that decides the weights.
    history : tuple of pairs
        Steps, and the loss at each.
    """

    decoder: str
    encoder: str
    data: str
    rows: int
    dim: int
    shape: tuple[int, ...]
    seed: int
    steps: int
    loss: float
    options: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Examples:
    """The pairs that a decoder learns from, already checked; `images` are 8-bit."""

    features: NDArray[np.float64]
    images: NDArray[np.uint8]
    labels: NDArray[np.intp] | None
    data: str
    """SHA-256 of the three."""

    @property
    def flat(self) -> Pixels:
        """The pictures as rows of numbers from 0 to 1."""
        return self.images.reshape(len(self.images), -1) / 255.0


@dataclass(frozen=True, eq=False)
class Learnt:
    """What learning gave: named arrays, steps taken, the last loss and the losses on the way."""

    state: dict[str, Array]
    loss: float
    steps: int = 0
    history: tuple[tuple[int, float], ...] = ()


class Decoder(ABC):
    """A map from features to pictures that is learnt from pairs.

    Subclasses are dataclasses of options and give the three parts below; what they share is checked here once.
    """

    name: ClassVar[str]
    record: TrainingRecord | None = None
    state: dict[str, Array]

    @abstractmethod
    def _fit(self, rows: Examples, seed: int, tick: Tick | None) -> Learnt:
        """Learn from checked pairs."""

    @abstractmethod
    def _decode(self, features: Array, labels: Array | None, generator: np.random.Generator) -> Pixels:
        """Draw checked features: N rows of numbers, from 0 to 1 but for small excesses."""

    def _options(self) -> dict[str, Any]:
        """Return the options that decide the weights, in plain types."""
        return {}

    @property
    def option_names(self) -> frozenset[str]:
        """Names of the options that a training record of this decoder has."""
        return frozenset(self._options())

    def fit(
        self,
        features: Array,
        images: Array,
        *,
        labels: Array | None = None,
        encoder: str = "",
        seed: int = 0,
        tick: Tick | None = None,
    ) -> Self:
        """Learn from pairs of features and 8-bit images.

        Parameters
        ----------
        features : array, N x d
            What the encoder made of the images.
        images : array of uint8, N x H x W or N x H x W x 3
            The pictures.
        labels : array of int, optional
            Their classes; only `class-mean` needs them.
        encoder : str
            Name of the encoder, kept in the record so that features of another are refused.
        seed : int
            Seed of everything random.
        tick : callable, optional
            Told of each step.

        Raises
        ------
        InputError
            If features and images do not fit together.
        """
        rows = _checked(features, images, labels)
        fitted = self._fit(rows, seed, tick)
        self.state = fitted.state
        self.record = TrainingRecord(
            self.name,
            encoder,
            rows.data,
            len(rows.features),
            rows.features.shape[1],
            rows.images.shape[1:],
            seed,
            fitted.steps,
            fitted.loss,
            self._options(),
            fitted.history,
        )
        return self

    def decode(
        self,
        features: Array,
        *,
        generator: np.random.Generator,
        labels: Array | None = None,
        encoder: str | None = None,
    ) -> Pixels:
        """Return a picture of each feature vector: N x H x W or N x H x W x 3, from 0 to 1.

        Parameters
        ----------
        features : array, N x d
            Recovered or exact features.
        generator : numpy.random.Generator
            Where a decoder's randomness comes from; most have none.
        labels : array of int, optional
            Their recovered classes; only `class-mean` needs them.
        encoder : str, optional
            Name of the encoder that the features are of, if it is known: it must be the one in the training record.

        Raises
        ------
        InputError
            If nothing was learnt yet, or the features are of another encoder or size, or not finite numbers.
        DataError
            If the tensors are not those that the record tells of.
        """
        record = self.record
        if record is None:
            raise InputError("decoder", "one that was fitted or loaded", f"a fresh {self.name} decoder")
        if encoder is not None and encoder != record.encoder:
            trained = f"{record.encoder}, as in training" if record.encoder else "absent: the record names none"
            raise InputError("encoder", trained, encoder)
        features = _numbers("features", features)
        if features.ndim != 2 or features.shape[1] != record.dim:
            raise InputError("features", f"N x {record.dim}, as in training", f"shape {features.shape}")
        if not np.isfinite(features).all():
            raise InputError("features", "finite", "NaN or infinity")
        known = None if labels is None else _labels(labels, len(features))
        if not len(features):
            return np.empty((0, *record.shape))
        try:
            pixels = np.clip(self._decode(features, known, generator), 0.0, 1.0)
            return pixels.reshape(len(features), *record.shape).astype(np.float64)
        except ExhumeError:
            raise
        except (KeyError, ValueError) as error:
            raise DataError(f"the tensors are not those of the record's {self.name} decoder: {error}") from error


@dataclass(frozen=True)
class DecoderEntry:
    """One entry of the registry: name, one line for people, how it is built from options, and the extra it needs."""

    name: str
    about: str
    build: Callable[..., Decoder]
    extra: str | None = None


def _checked(features: Array, images: Array, labels: Array | None) -> Examples:
    images = _array("images", images)
    if images.dtype != np.uint8 or not (images.ndim == 3 or (images.ndim == 4 and images.shape[3] == 3)):
        raise InputError("images", "8-bit, N x H x W or N x H x W x 3", f"{images.dtype} of shape {images.shape}")
    features = _numbers("features", features)
    if features.ndim != 2 or len(features) != len(images) or not len(features):
        raise InputError("features", f"one row for each of the {len(images)} images", f"shape {features.shape}")
    if not np.isfinite(features).all():
        raise InputError("features", "finite", "NaN or infinity")
    known = None if labels is None else _labels(labels, len(features))
    arrays = (features, images) if known is None else (features, images, known.astype(np.int64))
    return Examples(features, images, known, sha256_of_arrays(*arrays))


def _labels(labels: Array, rows: int) -> NDArray[np.intp]:
    known = _array("labels", labels)
    if known.shape != (rows,) or known.dtype.kind not in "iu" or (rows and known.min() < 0):
        raise InputError("labels", f"{rows} integers from 0", f"{known.dtype} of shape {known.shape}")
    return known.astype(np.intp)


def _numbers(name: str, values: Array) -> NDArray[np.float64]:
    """Return real numbers as float64; text is not read as numbers."""
    found = _array(name, values)
    if found.dtype.kind not in "biuf":
        raise InputError(name, "an array of real numbers", f"{found.dtype} of shape {found.shape}")
    return found.astype(np.float64, copy=False)


def _array(name: str, values: Array) -> Array:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(name, "an array with rows of one length", "rows of different lengths") from error
