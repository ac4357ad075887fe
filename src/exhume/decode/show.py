"""A trained decoder on rows it has not seen: exact features, measures beside the nulls, and a figure."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from exhume.data import FeatureSet, ImageSet, encoders, load_features, sets
from exhume.data.home import home_folder
from exhume.decode._base import Decoder, Pixels
from exhume.decode.decoders import build
from exhume.decode.images import in_shape
from exhume.decode.judge import Judge
from exhume.decode.measures import Scores, beats
from exhume.errors import InputError

__all__ = ["Shown", "draw", "measured"]

NULLS = {"mean": "whatever the row", "class-mean": "mean of the true label", "retrieval": "another picture"}
"""The nulls, and what each one draws."""

NEIGHBOURS = 10_000
"""Among how many labelled training pictures the nearest one is looked for."""

SHOWN = 10

FOREIGN = (
    "These are other pictures, of the training rows with the nearest features, not drawings of the record: "
    "whatever they measure, nothing of the record's own picture is in them."
)


@dataclass(frozen=True, eq=False)
class Shown:
    """Targets, what the decoder and the nulls drew of them, and the scores of each; the decoder is the first.

    `crowd` and `neighbours` are among how many pictures a row, and its label, were looked for.
    """

    name: str
    about: str
    targets: Pixels
    pictures: dict[str, Pixels]
    scores: dict[str, Scores]
    crowd: int
    neighbours: int

    @property
    def nulls(self) -> list[str]:
        """Names of the nulls that stand beside the decoder."""
        return [name for name in self.pictures if name != self.name]

    def values(self, name: str) -> dict[str, NDArray[np.float64]]:
        """Return one value per row and measure."""
        scores = self.scores[name]
        found = {
            "PSNR": scores.psnr,
            "SSIM": scores.ssim,
            "label by pixels": scores.label,
            f"re-identified among {self.crowd}": scores.pixels,
        }
        return {measure: values.astype(np.float64) for measure, values in found.items()}

    def means(self) -> dict[str, dict[str, float]]:
        """Return the mean of each measure, of the decoder first."""
        return {name: {m: float(v.mean()) for m, v in self.values(name).items()} for name in self.pictures}

    def heading(self, name: str) -> str:
        """Return how a row of pictures is called: a null says that it is one, and what it draws."""
        what = f" ({NULLS[name]})" if name in NULLS else ""
        return f"{'null: ' if name in self.nulls else ''}{name}{what}"

    def verdict(self) -> str:
        """Say in one sentence whether the decoder shows anything."""
        if self.name == "retrieval":
            return FOREIGN
        if self.name in NULLS:
            return f"{self.name} is a null: these pictures show nothing of the rows but, at most, their label."
        ours = self.values(self.name)
        won = [m for m, v in ours.items() if all(beats(v, self.values(null)[m]) for null in self.nulls)]
        if not won:
            return f"{self.name} does not beat its nulls by any measure: these pictures show nothing of the rows."
        return f"{self.name} beats {_listed(self.nulls)} by {_listed(won)} (sign test at 1%, against each)."


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def measured(decoder: Decoder, data: str, *, home: Path | None, rows: int, seed: int) -> Shown:
    """Draw the first test rows of a data set from their exact features; the nulls are of all its training rows.

    Raises
    ------
    InputError
        If the decoder was not fitted, or reads features of another encoder or size.
    """
    found = _features(decoder, data, home)
    assert found.images is not None
    judge = _judge(found.images, rows, home)
    features, labels = found.test_features[:rows], found.test_labels[:rows]
    pictures = {}
    for one in (decoder, *_nulls(found, decoder.name)):
        rng = np.random.default_rng(seed)
        drawn = one.decode(features, generator=rng, labels=labels, encoder=found.encoder)
        pictures[one.name] = in_shape(drawn, judge.targets.shape[1:])
    about = f"The first {len(judge.deleted)} test rows of {data}, from their exact {found.encoder} features."
    scores = {name: judge.score(drawn) for name, drawn in pictures.items()}
    return Shown(decoder.name, about, judge.targets, pictures, scores, len(judge.crowd), len(judge.images.test_images))


def _features(decoder: Decoder, data: str, home: Path | None) -> FeatureSet:
    """Return a data set under the encoder that the decoder was trained on."""
    record = decoder.record
    if record is None or not record.encoder:
        raise InputError("decoder", "one whose record names its encoder", decoder.name)
    shape = sets.by_name(data).shape
    if encoders.REGISTRY.find(record.encoder).dim is None and shape != record.shape:
        # Such an encoder is drawn for one size of picture: under the same name, it is another for each size.
        raise InputError("data", f"pictures of shape {record.shape}, which this {record.encoder} encodes", shape)
    return load_features(data, record.encoder, home=home, images=True)


def _nulls(found: FeatureSet, but: str) -> list[Decoder]:
    """Return the nulls, trained on the data set's own training rows, without the one that is shown."""
    assert found.images is not None
    pairs = found.train_features, found.images.train_images
    return [build(name).fit(*pairs, labels=found.train_labels, encoder=found.encoder) for name in NULLS if name != but]


def _judge(images: ImageSet, rows: int, home: Path | None) -> Judge:
    """Return the judge of test rows: it takes records and crowd from the train rows, so the two change places."""
    some = slice(None, None, -(-len(images.train_images) // NEIGHBOURS))
    exchanged = replace(
        images,
        train_images=images.test_images,
        train_labels=images.test_labels,
        test_images=images.train_images[some],
        test_labels=images.train_labels[some],
    )
    return Judge.of(exchanged, np.arange(min(rows, len(images.test_images))), home_folder(home), second=False)


def draw(shown: Shown, path: Path) -> None:
    """Write ten targets with what was drawn of each below them, and a caption that says what they are."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = {"target": shown.targets, **{shown.heading(name): drawn for name, drawn in shown.pictures.items()}}
    figure = Figure(figsize=(8, 0.8 * len(lines)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(lines), 1, squeeze=False)[:, 0]
    for axis, (name, pictures) in zip(axes, lines.items(), strict=True):
        axis.imshow(np.concatenate(list(pictures[:SHOWN]), axis=1), cmap="gray", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])
        axis.set_ylabel(name.replace(" (", "\n("), rotation=0, ha="right", va="center")
    axes[-1].set_xlabel(caption(shown), fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Names hang to the left of pictures that keep their aspect: without this the longest is cut off.
    figure.savefig(path, dpi=120, bbox_inches="tight")


def caption(shown: Shown) -> str:
    """Return what stands below the pictures."""
    return "\n".join(textwrap.wrap(f"{shown.about} {shown.verdict()}", 90))
