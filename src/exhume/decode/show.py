"""A trained decoder on rows it has not seen: exact features, measures beside the nulls, and a figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from exhume.data import encoders, load_features, sets
from exhume.decode._base import Decoder, Pixels
from exhume.decode.decoders import build
from exhume.decode.images import in_shape
from exhume.decode.measures import beats, nearest, psnr, ssim
from exhume.errors import InputError

__all__ = ["Shown", "draw", "measured"]

NULLS = ("mean", "class-mean")
SHOWN = 10


@dataclass(frozen=True, eq=False)
class Shown:
    """Targets, and what the decoder and the nulls drew of them."""

    name: str
    targets: Pixels
    pictures: dict[str, Pixels]

    def values(self, name: str) -> dict[str, NDArray[np.float64]]:
        """Return one value per row and measure."""
        pictures = self.pictures[name]
        found = nearest(pictures, self.targets) == np.arange(len(self.targets))
        return {
            "PSNR": psnr(pictures, self.targets),
            "SSIM": ssim(pictures, self.targets),
            f"re-identified among {len(self.targets)}": found.astype(np.float64),
        }

    def means(self) -> dict[str, dict[str, float]]:
        """Return the mean of each measure, of the decoder first."""
        return {name: {m: float(v.mean()) for m, v in self.values(name).items()} for name in self.pictures}

    def verdict(self) -> str:
        """Say in one sentence whether the decoder shows anything."""
        ours = self.values(self.name)
        won = [m for m, v in ours.items() if all(beats(v, self.values(null)[m]) for null in NULLS)]
        if not won:
            return f"{self.name} does not beat its nulls by any measure: these pictures show nothing of the rows."
        return f"{self.name} beats mean and class-mean by {', '.join(won)} (sign test at 1%)."


def measured(decoder: Decoder, data: str, *, home: Path | None, rows: int, seed: int) -> Shown:
    """Draw the first test rows of a data set from their exact features; the nulls are of its training rows.

    Raises
    ------
    InputError
        If the decoder was not fitted, or reads features of another encoder or size.
    """
    record = decoder.record
    if record is None or not record.encoder:
        raise InputError("decoder", "one whose record names its encoder", decoder.name)
    shape = sets.by_name(data).shape
    if encoders.REGISTRY.find(record.encoder).dim is None and shape != record.shape:
        # Such an encoder is drawn for one size of picture: under the same name, it is another for each size.
        raise InputError("data", f"pictures of shape {record.shape}, which this {record.encoder} encodes", shape)
    found = load_features(data, record.encoder, home=home, images=True)
    assert found.images is not None
    features, labels = found.test_features[:rows], found.test_labels[:rows]
    targets = found.images.test_images[:rows] / 255.0
    pairs = found.train_features, found.images.train_images
    pictures = {}
    for one in (decoder, *(build(name).fit(*pairs, labels=found.train_labels) for name in NULLS)):
        drawn = one.decode(features, generator=np.random.default_rng(seed), labels=labels)
        pictures[one.name] = in_shape(drawn, targets.shape[1:])
    return Shown(decoder.name, targets, pictures)


def draw(shown: Shown, path: Path) -> None:
    """Write ten targets with what was drawn of each below them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = {"target": shown.targets, **shown.pictures}
    figure = Figure(figsize=(8, 0.8 * len(lines)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(lines), 1, squeeze=False)[:, 0]
    for axis, (name, pictures) in zip(axes, lines.items(), strict=True):
        axis.imshow(np.concatenate(list(pictures[:SHOWN]), axis=1), cmap="gray", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])
        axis.set_ylabel(name, rotation=0, ha="right", va="center")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Names hang to the left of pictures that keep their aspect: without this the longest is cut off.
    figure.savefig(path, dpi=120, bbox_inches="tight")
