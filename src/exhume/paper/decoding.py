"""What the two figures of decoded pictures share: features that the attack really recovered, and how they are judged.

The deleted records are drawn among those of other clients. A record of which nothing was recovered stays in every
denominator, with the mean picture in its place. The pictures that a figure shows are those of the first records drawn,
not of chosen ones.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.data import ImageSet, load, sets
from exhume.data.home import home_folder
from exhume.decode import Decoder, Pixels, available, build
from exhume.decode.images import in_8_bits, in_shape
from exhume.decode.judge import Judge
from exhume.decode.measures import MEASURES, Scores, beats
from exhume.numerics import Matrix, Rows, relative
from exhume.paper.cells import CellSpec, Split, cell, dealt
from exhume.paper.feature_source import FeatureSource, heading
from exhume.paper.study import Study
from exhume.paper.table import PRECISIONS, TableRow
from exhume.paper.table import row as row_of
from exhume.paper.values import Count, Mean, Number, Value, Words
from exhume.paper.work import Result
from exhume.plotting import save, style
from exhume.simulate.trial import Campaign

__all__ = [
    "COLUMNS",
    "METHODS",
    "NULLS",
    "Scene",
    "Strip",
    "draw_strips",
    "drawn_by",
    "lacks",
    "pictures_of",
    "row",
    "scene",
    "score",
    "victims",
]

METHODS = ("rank-one", "difference")
NULLS = ("mean", "class-mean", "retrieval")
"""What a decoder must beat: pictures that an attacker could show without the record's own feature or with another's."""

SHOWN = 10
COLUMNS = (*MEASURES.values(), "feature error", "beats its nulls by")


@dataclass(frozen=True, eq=False)
class Found:
    """What one recovery made of every deleted record."""

    features: Matrix
    labels: Rows
    found: NDArray[np.bool_]
    errors: tuple[float, ...]
    """Relative errors of the features that were found."""


@dataclass(frozen=True, eq=False)
class Scene:
    """The deleted records, the attacker's own rows, and the judge."""

    images: ImageSet
    features: Matrix
    labels: Rows
    deleted: Rows
    own: Rows
    judge: Judge
    recovered: Mapping[tuple[str, str], Found]
    """By head precision and recovery."""

    encoder: str
    """Name of the encoder that all features are of."""

    @property
    def exact(self) -> Found:
        """The deleted records' own features."""
        return Found(self.features[self.deleted], self.labels[self.deleted], np.ones(len(self.deleted), bool), ())

    def fitted(self, name: str, encoder: str, **options: Any) -> Decoder:
        """Return a decoder that was trained on the attacker's own pairs."""
        pairs = self.features[self.own], self.images.train_images[self.own]
        return build(name, **options).fit(*pairs, labels=self.labels[self.own], encoder=encoder)


@lru_cache(maxsize=2)
def victims(source: FeatureSource, splits: tuple[Split, ...], records: int) -> Rows:
    """Draw records that no attacker of these splits holds: every partition is attacked over the same ones."""
    stages = [dealt(source, split) for split in splits]
    held = np.concatenate([stage.parts[stage.attacker] for stage in stages])
    others = np.setdiff1d(np.arange(len(stages[0].labels)), held)
    drawn = np.random.default_rng(splits[0].seed).choice(others, min(records, len(others)), replace=False)
    return drawn.astype(np.intp)


def scene(source: FeatureSource, spec: CellSpec, deleted: Rows, methods: Sequence[str] = METHODS) -> Scene:
    """Attack the deletion of each of these records, from heads of each precision, with each of the recoveries."""
    found = source.load()
    home = home_folder(source.home)
    images = _images(source.data, home)
    first = cell(source, replace(spec, precision=PRECISIONS[0]))
    own = first.scenario.parts[first.scenario.attacker]
    # Bundled digits are too small for a second opinion to mean anything, and their tests need no network's weights.
    second = available() and sets.by_name(source.data).holding is not None
    judge = Judge.of(images, deleted, home, seed=spec.split.seed, second=second)
    recovered: dict[tuple[str, str], Found] = {}
    for precision in PRECISIONS:
        live = cell(source, replace(spec, precision=precision))
        recovered |= {(precision, method): part for method, part in _attacked(live, deleted, methods).items()}
    return Scene(images, found.train_features, found.train_labels, deleted, own, judge, recovered, source.encoder)


def lacks(study: Study) -> str | None:
    """Return what a study lacks for its pictures to be decoded, in words."""
    if study.data == sets.OWN:
        return "needs pictures, and your own features have none"
    return None if available() else "needs the 'decode' extra: pip install 'exhume[decode]'"


@lru_cache(maxsize=2)
def _images(data: str, home: Path) -> ImageSet:
    return load(data, home)


def _attacked(live: Campaign, deleted: Rows, methods: Sequence[str]) -> dict[str, Found]:
    """Return what each recovery made of each record."""
    features = {method: np.zeros((len(deleted), live.scenario.d)) for method in methods}
    labels = {method: np.zeros(len(deleted), np.intp) for method in methods}
    there = {method: np.zeros(len(deleted), bool) for method in methods}
    errors: dict[str, list[float]] = {method: [] for method in methods}
    for i, number in enumerate(deleted):
        trial = live.trial(np.array([number]), methods, "record")
        for method, block in trial.blocks.items():
            label, feature = block.as_sample()
            if np.isfinite(feature).all():
                features[method][i], labels[method][i], there[method][i] = feature, label, True
                errors[method].append(
                    relative(feature - live.scenario.features[number], live.scenario.features[number])
                )
    return {m: Found(features[m], labels[m], there[m], tuple(errors[m])) for m in methods}


def drawn_by(stage: Scene, decoder: Decoder, found: Found, seed: int = 0) -> Pixels:
    """Draw what was found, in the records' shape; the mean of the attacker's own pictures where nothing was."""
    rng = np.random.default_rng(seed)
    drawn = decoder.decode(found.features, generator=rng, labels=found.labels, encoder=stage.encoder)
    drawn = in_shape(drawn, stage.images.train_images.shape[1:])
    drawn[~found.found] = (stage.images.train_images[stage.own] / 255.0).mean(axis=0)
    return drawn


def score(stage: Scene, decoder: Decoder, found: Found) -> Result:
    """Draw what was found and score it; the pictures of the first records come with the scores."""
    return judged(stage, drawn_by(stage, decoder, found), found)


def judged(stage: Scene, drawn: Pixels, found: Found) -> Result:
    """Score pictures of the deleted records, whatever drew them."""
    return {
        "scores": stage.judge.score(drawn, found.found).plain(),
        "labels": int((found.labels == stage.labels[stage.deleted])[found.found].sum()),
        "feature_error": float(np.median(found.errors)) if found.errors else None,
        "pictures": packed(drawn[:SHOWN]),
    }


def packed(pictures: Pixels) -> dict[str, Any]:
    """Return pictures as text that JSON can hold."""
    content = in_8_bits(pictures)
    return {"shape": list(content.shape), "bytes": base64.b64encode(content.tobytes()).decode()}


def pictures_of(plain: Mapping[str, Any]) -> NDArray[np.uint8]:
    """Return the pictures that `packed` wrote."""
    return np.frombuffer(base64.b64decode(plain["bytes"]), np.uint8).reshape(plain["shape"])


def row(study: Study, name: str, result: Result, nulls: Sequence[Result]) -> TableRow:
    """Return one row of the table: the scores, and the measures by which they beat every null."""
    scores = Scores.of(result["scores"])
    cells: dict[str, Value | None] = {}
    for measure, column in MEASURES.items():
        values = getattr(scores, measure)
        # The record's own picture has no error: its PSNR is infinite and says nothing.
        if values is not None and np.isfinite(values).all():
            cells[column] = Count.over(values.tolist()) if values.dtype == bool else Mean.of(values)
    if result["feature_error"] is not None:
        cells["feature error"] = Number(result["feature_error"])
    if nulls:
        won = [
            column.split(",")[0] if m == "psnr" else column for m, column in MEASURES.items() if _wins(scores, nulls, m)
        ]
        cells[COLUMNS[-1]] = Words("; ".join(won) if won else "nothing: shows nothing")
    return row_of(study, name, cells, len(scores.psnr))


def _wins(scores: Scores, nulls: Sequence[Result], measure: str) -> bool:
    ours = getattr(scores, measure)
    theirs = [getattr(Scores.of(null["scores"]), measure) for null in nulls]
    return ours is not None and all(other is not None and beats(ours, other) for other in theirs)


@dataclass(frozen=True)
class Strip:
    """One row of a figure: its name, and the pictures of each data set."""

    name: str
    pictures: tuple[NDArray[np.uint8], ...]


def draw_strips(studies: Sequence[Study], strips: Sequence[Strip], path: Path) -> None:
    """Draw rows of pictures, one column of the figure per data set, names at the left."""
    from matplotlib.figure import Figure

    with style({"axes.grid": False}):
        figure = Figure(figsize=(1.5 + 4.6 * len(studies), 0.25 + 0.5 * len(strips)), layout="constrained")
        axes = figure.subplots(len(strips), len(studies), squeeze=False)
        for line, strip in zip(axes, strips, strict=True):
            for axis, pictures in zip(line, strip.pictures, strict=True):
                side_by_side = np.concatenate([np.pad(p, _margin(p), constant_values=255) for p in pictures], axis=1)
                axis.imshow(side_by_side, cmap="gray", vmin=0, vmax=255, interpolation="nearest", aspect="equal")
                axis.set(xticks=[], yticks=[])
                axis.spines[:].set_visible(False)
            line[0].set_ylabel(strip.name, rotation=0, ha="right", va="center")
        for axis, study in zip(axes[0], studies, strict=True):
            axis.set_title(heading(study.data), fontsize=10)
        save(figure, path)


def _margin(picture: NDArray[np.uint8]) -> list[tuple[int, int]]:
    return [(0, 0), (0, 2), (0, 0)][: picture.ndim]
