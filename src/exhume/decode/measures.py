"""Measures of a decoded picture against the record's own, and a test of whether one decoder does better than another.

Nothing here uses the encoder that was decoded. A picture that was made to have a certain feature has it, whatever it
looks like, so looking at that feature again proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter
from scipy.stats import binomtest

from exhume.decode._base import Array, Pixels
from exhume.errors import InputError

__all__ = ["MEASURES", "Scores", "beats", "nearest", "psnr", "ssim"]

WINDOW = 7
"""Side of the square over which structural similarity compares, as in scikit-image."""

K1, K2 = 0.01, 0.03
"""The two stabilising constants of structural similarity (Wang et al. 2004), for pictures from 0 to 1."""

LEVEL = 0.01
"""A decoder beats another if a sign test on paired records says so at this level, one-sided."""

MEASURES = {
    "psnr": "PSNR, dB",
    "ssim": "SSIM",
    "label": "label, pixel 1-NN",
    "pixels": "re-identified, pixels",
    "second": "re-identified, MobileNetV2",
}
"""What is measured of every picture; more is better for each."""

Floats = NDArray[np.float64]
BATCH = 256


@dataclass(frozen=True, eq=False)
class Scores:
    """One value per record and measure; a record of which nothing was recovered has the least of each."""

    psnr: Floats
    ssim: Floats
    label: NDArray[np.bool_]
    pixels: NDArray[np.bool_]
    second: NDArray[np.bool_] | None
    """None where the second encoder is not at hand."""

    def plain(self) -> dict[str, Any]:
        """Return lists that JSON can hold."""
        return {name: None if (v := getattr(self, name)) is None else v.tolist() for name in MEASURES}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Scores:
        """Return what `plain` gave."""
        found: dict[str, Any] = {name: None if plain[name] is None else np.asarray(plain[name]) for name in MEASURES}
        return cls(**found)


def psnr(pictures: Pixels, targets: Pixels) -> Floats:
    """Peak signal-to-noise ratio of each picture, in decibels; for pictures from 0 to 1."""
    _same(pictures, targets)
    error = np.mean((pictures - targets).reshape(len(targets), -1) ** 2, axis=1)
    with np.errstate(divide="ignore"):
        ratio: Floats = -10 * np.log10(error)
    return ratio


def ssim(pictures: Pixels, targets: Pixels) -> Floats:
    """Structural similarity of each picture (Wang et al. 2004), channels averaged.

    Uniform windows of 7 x 7 and the sample covariance: what scikit-image's `structural_similarity` does by default,
    all pictures at once. Without a full window (a side under 7) it is not defined.
    """
    _same(pictures, targets)
    if min(targets.shape[1:3]) < WINDOW:
        raise InputError("targets", f"at least {WINDOW} pixels wide and high", f"shape {targets.shape}")
    x, y = (p[..., None] if p.ndim == 3 else p for p in (pictures, targets))

    def local(values: Pixels) -> Pixels:
        means: Pixels = uniform_filter(values, (1, WINDOW, WINDOW, 1))
        return means

    count = WINDOW**2
    mean_x, mean_y = local(x), local(y)
    unbiased = count / (count - 1)
    spread_x, spread_y = (unbiased * (local(p * p) - m * m) for p, m in ((x, mean_x), (y, mean_y)))
    shared = unbiased * (local(x * y) - mean_x * mean_y)
    likeness = ((2 * mean_x * mean_y + K1**2) * (2 * shared + K2**2)) / (
        (mean_x**2 + mean_y**2 + K1**2) * (spread_x + spread_y + K2**2)
    )
    edge = WINDOW // 2
    inner: Floats = likeness[:, edge:-edge, edge:-edge].mean(axis=(1, 2, 3))
    return inner


def nearest(queries: Array, known: Array) -> NDArray[np.intp]:
    """Return for each query the number of the known row that lies nearest (Euclidean distance)."""
    flat = known.reshape(len(known), -1).astype(np.float64)
    asked = queries.reshape(len(queries), -1).astype(np.float64)
    if asked.shape[1] != flat.shape[1]:
        raise InputError("queries", f"rows of {flat.shape[1]} numbers", asked.shape[1])
    lengths = np.einsum("ij,ij->i", flat, flat)
    parts = [np.argmin(lengths - 2 * asked[i : i + BATCH] @ flat.T, axis=1) for i in range(0, len(asked), BATCH)]
    return np.concatenate(parts)


def beats(ours: Array, null: Array) -> bool:
    """Whether one decoder's values are larger than another's on the same records: a one-sided sign test.

    Ties say nothing and are left out; for counts this is McNemar's exact test.
    """
    if ours.shape != null.shape:
        raise InputError("null", f"measured on the same records, shape {ours.shape}", null.shape)
    gain = np.asarray(ours, dtype=np.float64) - np.asarray(null, dtype=np.float64)
    gain = gain[np.isfinite(gain)]
    wins, losses = int((gain > 0).sum()), int((gain < 0).sum())
    if wins + losses == 0:
        return False
    return bool(binomtest(wins, wins + losses, alternative="greater").pvalue < LEVEL)


def _same(pictures: Pixels, targets: Pixels) -> None:
    if pictures.shape != targets.shape:
        raise InputError("pictures", f"of the targets' shape {targets.shape}", pictures.shape)
