"""Figure: pictures of deleted records, drawn by a latent diffusion model that was trained on public images.

The model (`exhume decode train diffusion --data tinyimagenet --encoder resnet18 --steps 2600`) has seen TinyImageNet
and its features, and nothing of the federation. It draws the features that attacker-data probes really recovered of 200
records of other clients (rank-one recovery, IID partition). A sample is one plausible picture, not the record's; the
mean of eight samples keeps what they share. Beside them stand what the same public images give without diffusion (their
mean, ridge regression to pixels on the first 5,000, and retrieval: the public picture with the nearest feature) and the
mean picture of the recovered label, of the attacker's own rows. For MNIST colour pictures are averaged to grey and
reduced to 28 pixels. A row beats its nulls by a measure if a one-sided sign test on paired records says so at 1%
against each of mean, class mean and retrieval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from exhume.data import FeatureSet, load_features
from exhume.data.files import sha256_of_file
from exhume.data.home import home_folder
from exhume.decode import Decoder, build, load
from exhume.decode.decoders.diffusion import Diffusion
from exhume.errors import DataError
from exhume.paper.cells import CellSpec, Split
from exhume.paper.decoding import (
    COLUMNS,
    NULLS,
    Strip,
    draw_strips,
    drawn_by,
    judged,
    lacks,
    packed,
    pictures_of,
    row,
    scene,
    score,
    victims,
)
from exhume.paper.feature_source import FeatureSource
from exhume.paper.study import Study
from exhume.paper.table import PRECISIONS, Results, Table, TableRow
from exhume.paper.work import Job, Result

__all__ = ["PUBLIC", "TABLES", "PublicDecoding", "training", "weights_file"]

PUBLIC = "tinyimagenet"
STEPS = 2_600
"""Steps of training of the model behind the published rows."""

SAMPLES = 8
RIDGE_ROWS = 5_000
NAMES = {
    "mean": "null: mean public picture",
    "class-mean": "null: class mean of the recovered label (own rows)",
    "retrieval": "null: retrieval from public images (another picture)",
    "ridge": "ridge, public images",
    "one": "one sample, float64",
    "one32": "one sample, float32",
    "many": f"mean of {SAMPLES} samples, float64",
}


def weights_file(home: str | Path | None, encoder: str = "resnet18") -> Path:
    """Where `exhume decode train diffusion` leaves the model of an encoder's features."""
    return home_folder(home) / "decoders" / f"diffusion-{PUBLIC}-{encoder}.safetensors"


def training(encoder: str = "resnet18") -> str:
    """Return the command that trains the model of an encoder's features as it was for the published rows."""
    return f"exhume decode train diffusion --data {PUBLIC} --encoder {encoder} --steps {STEPS}"


@dataclass(frozen=True)
class PublicDecoding:
    """The attack on one partition, and what decoders of public images make of it."""

    split: Split
    records: int
    weights: str
    """SHA-256 of the trained model's file."""

    def run(self, source: FeatureSource) -> Result:
        """Attack, draw, judge."""
        deleted = victims(source, (self.split,), self.records)
        spec = CellSpec("own_data", PRECISIONS[0], self.split, sequence=self.split.seed)
        stage = scene(source, spec, deleted, ("rank-one",))
        best, coarse = (stage.recovered[heads, "rank-one"] for heads in PRECISIONS)
        model = _model(source, self.weights)
        samples = [drawn_by(stage, model, best, seed) for seed in range(SAMPLES)]
        others = {"class-mean": stage.fitted("class-mean", source.encoder)}
        others |= {name: _public(source.home, source.encoder, name) for name in ("mean", "retrieval", "ridge")}
        return {
            "targets": packed(stage.judge.targets[:10]),
            "one": judged(stage, samples[0], best),
            "one32": score(stage, model, coarse),
            "many": judged(stage, np.mean(samples, axis=0), best),
            "others": {name: score(stage, decoder, best) for name, decoder in others.items()},
        }


def _model(source: FeatureSource, digest: str) -> Diffusion:
    path = weights_file(source.home, source.encoder)
    if not path.is_file() or sha256_of_file(path) != digest:
        raise DataError(f"{path} is not the file with SHA-256 {digest} that this work was planned with")
    found = load(path, decoder="diffusion", encoder=source.encoder)
    assert isinstance(found, Diffusion)
    found.home = home_folder(source.home)
    return found


@lru_cache(maxsize=1)
def _public_rows(home: str | None, encoder: str) -> FeatureSet:
    return load_features(PUBLIC, encoder, home=home, images=True)


@lru_cache(maxsize=3)
def _public(home: str | None, encoder: str, name: str) -> Decoder:
    found = _public_rows(home, encoder)
    assert found.images is not None
    # Leave-one-out errors of 3,072 pixels on every row would take gigabytes.
    rows = RIDGE_ROWS if name == "ridge" else None
    return build(name).fit(found.train_features[:rows], found.images.train_images[:rows], encoder=encoder)


def _job(study: Study) -> Job:
    weights = sha256_of_file(weights_file(study.source.home, study.source.encoder))
    return Job(study.source, PublicDecoding(Split(study.seed, study.members, None), study.sizes.decoded, weights))


def _jobs(study: Study) -> list[Job]:
    return [_job(study)]


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        found = results[_job(study)]
        nulls = [found["others"][name] for name in NULLS]
        measured = {NAMES[name]: found[name] for name in ("one", "one32", "many")}
        measured |= {NAMES["ridge"]: found["others"]["ridge"]}
        rows += [row(study, name, part, nulls) for name, part in measured.items()]
        rows += [row(study, NAMES[name], found["others"][name], ()) for name in NULLS]
    return rows


def _draw(studies: Sequence[Study], results: Results, path: Path) -> None:
    found = [results[_job(study)] for study in studies]
    parts = {
        "target": [f["targets"] for f in found],
        "one sample": [f["one"]["pictures"] for f in found],
        f"mean of {SAMPLES}": [f["many"]["pictures"] for f in found],
        "null: retrieval\nfrom public images": [f["others"]["retrieval"]["pictures"] for f in found],
        "null: class mean": [f["others"]["class-mean"]["pictures"] for f in found],
    }
    draw_strips(studies, [Strip(name, tuple(map(pictures_of, p))) for name, p in parts.items()], path)


def _lacks(study: Study) -> str | None:
    if (reason := lacks(study)) is not None:
        return reason
    if not weights_file(study.source.home, study.source.encoder).is_file():
        return f"needs a model: {training(study.source.encoder)}"
    return None


TABLES = (
    Table(
        "latent_diffusion",
        "Pictures by a diffusion model of public images",
        COLUMNS,
        _jobs,
        _rows,
        _draw,
        order=190,
        lacks=_lacks,
    ),
)
