"""Where the features of a study come from: a description that travels to workers, which load it there themselves."""

from __future__ import annotations

import hashlib
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from exhume.data import FeatureSet, load_features
from exhume.data.extract import Tick
from exhume.errors import ExhumeError

__all__ = ["TICK", "WIDE", "FeatureSource", "heading", "lifted", "wide"]

TICK: ContextVar[Tick | None] = ContextVar("tick", default=None)
"""Told about the progress of an extraction, should features have to be computed."""

_HEADINGS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "fashion-mnist": "Fashion-MNIST"}
WIDE = "dinov2-vitb14"
"""The encoder of the paper's 768-dimensional experiment."""

BANDWIDTH = 4.0
_BATCH = 4096


@dataclass(frozen=True)
class FeatureSource:
    """Names of a data set and an encoder, and where to look; `lift` puts that many features on top (see `lifted`)."""

    data: str
    encoder: str
    dim: int | None = None
    home: str | None = None
    path: str | None = None
    lift: int | None = None

    def load(self) -> FeatureSet:
        """Return the features, kept in memory for the next call."""
        return _load(self)

    @property
    def title(self) -> str:
        """The encoder as headings name it."""
        return self.encoder if self.lift is None else f"{self.lift} LayerNorm features lifted from {self.encoder}"

    @property
    def shape(self) -> tuple[int, int]:
        """Feature dimensions and classes, without computing a lift."""
        base = _load(replace(self, lift=None))
        return self.lift or base.dim, base.classes

    @property
    def fingerprint(self) -> str:
        """Hash that names the content, without computing a lift."""
        base = _load(replace(self, lift=None)).fingerprint
        return base if self.lift is None else _lift_print(base, self.lift)


def heading(data: str) -> str:
    """Return a data set as headings name it."""
    return _HEADINGS.get(data, data)


def _lift_print(fingerprint: str, dim: int) -> str:
    return hashlib.sha256(f"{fingerprint} layer-norm fourier {dim} {BANDWIDTH}".encode()).hexdigest()


def lifted(rows: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """Return wider frozen features: random Fourier features (Rahimi and Recht) of unit rows, then a LayerNorm.

    The LayerNorm, with a fixed random scale and shift, is how vision transformers such as DINOv2 end. It puts the
    constant into the span of the features: one combination of them is 1 on every row. A ReLU layer would not do: on a
    client with one class of images many units are dead or linear, so that no client has full rank.
    """
    rng = np.random.default_rng(0)
    directions = BANDWIDTH * rng.standard_normal((rows.shape[1], dim))
    phases = rng.uniform(0, 2 * np.pi, dim)
    scale, shift = rng.uniform(0.5, 1.5, dim), rng.uniform(-0.5, 0.5, dim)
    found = np.empty((len(rows), dim))
    for i in range(0, len(rows), _BATCH):
        batch = rows[i : i + _BATCH]
        lengths = np.maximum(np.linalg.norm(batch, axis=1, keepdims=True), 1e-15)
        waves = np.cos((batch / lengths) @ directions + phases)
        waves -= waves.mean(axis=1, keepdims=True)
        found[i : i + _BATCH] = waves / waves.std(axis=1, keepdims=True) * scale + shift
    found.flags.writeable = False
    return found


@lru_cache(maxsize=3)
def _load(source: FeatureSource) -> FeatureSet:
    if source.lift is None:
        return load_features(
            source.data, source.encoder, dim=source.dim, home=source.home, path=source.path, tick=TICK.get()
        )
    base = _load(replace(source, lift=None))
    return replace(
        base,
        train_features=lifted(base.train_features, source.lift),
        test_features=lifted(base.test_features, source.lift),
        encoder=source.title,
        fingerprint=_lift_print(base.fingerprint, source.lift),
    )


@lru_cache(maxsize=8)
def wide(source: FeatureSource) -> FeatureSource:
    """Return wider features of the same data: DINOv2's if at hand, else a lift to half as many again.

    512 dimensions become 768, those of DINOv2 ViT-B/14.
    """
    candidate = replace(source, encoder=WIDE, dim=None)
    if source.path is None:
        try:
            load_features(candidate.data, candidate.encoder, home=candidate.home, download=False, tick=TICK.get())
        except ExhumeError:
            pass
        else:
            return candidate
    return replace(source, lift=3 * source.shape[0] // 2)
