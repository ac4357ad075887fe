"""Figure: pictures of deleted records, drawn by a decoder that the attacker trained on its own rows alone.

A light multilayer perceptron with a pixel loss learns from the image-feature pairs of one malicious client, under three
partitions (Dirichlet 0.05 and 0.5, IID), and draws the features that attacker-data probes really recovered of 200
records of other clients: float64 and float32 heads, rank-one recovery and differencing. Beside it stand the nulls, made
of the same rows: the mean picture, the mean picture of the recovered label, and the attacker's own picture with the
nearest feature (retrieval: another record's picture). The last rows draw the exact feature, and show the record's own
picture, which is what the label and re-identification columns can reach at most. The paper shows selected examples and
no numbers; the figure here shows the first ten records drawn. A row beats its nulls by a measure if a one-sided sign
test on paired records says so at 1% against each of the three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from exhume.paper.cells import CellSpec, Split
from exhume.paper.decoding import (
    COLUMNS,
    NULLS,
    Strip,
    draw_strips,
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

__all__ = ["TABLES", "LocalDecoding"]

ALPHAS = (0.05, 0.5, None)
"""None is the IID partition."""

OTHERS = {
    "ridge": "ridge",
    "mean": "null: mean",
    "class-mean": "null: class mean of the recovered label",
    "retrieval": "null: retrieval (another record's picture)",
}
"""What stands beside the network, and how the table calls it."""


@dataclass(frozen=True)
class LocalDecoding:
    """The attack on one partition, and what each decoder makes of it."""

    splits: tuple[Split, ...]
    """Those of all partitions: none of their attackers holds a record that is deleted."""
    which: int
    records: int

    def run(self, source: FeatureSource) -> Result:
        """Attack, train, draw, judge."""
        split = self.splits[self.which]
        deleted = victims(source, self.splits, self.records)
        stage = scene(source, CellSpec("own_data", PRECISIONS[0], split, sequence=split.seed), deleted)
        best = stage.recovered["float64", "rank-one"]
        mlp = stage.fitted("mlp", source.encoder)
        return {
            "own_rows": len(stage.own),
            "targets": packed(stage.judge.targets[:10]),
            "mlp": {
                f"{heads}, {method}": score(stage, mlp, found) for (heads, method), found in stage.recovered.items()
            },
            "exact": score(stage, mlp, stage.exact),
            "itself": judged(stage, stage.judge.targets, stage.exact),
            "others": {name: score(stage, stage.fitted(name, source.encoder), best) for name in OTHERS},
        }


def _name(alpha: float | None) -> str:
    return "IID" if alpha is None else f"α = {alpha:g}"


def _cases(study: Study) -> dict[str, Job]:
    splits = tuple(Split(study.seed, study.members, alpha) for alpha in ALPHAS)
    return {
        _name(alpha): Job(study.source, LocalDecoding(splits, i, study.sizes.decoded)) for i, alpha in enumerate(ALPHAS)
    }


def _jobs(study: Study) -> list[Job]:
    return list(_cases(study).values())


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        for name, job in _cases(study).items():
            found = results[job]
            nulls = [found["others"][null] for null in NULLS]
            start = f"{name} ({found['own_rows']} own rows)"
            drawn = {f"mlp, {kind}": part for kind, part in found["mlp"].items()}
            drawn[OTHERS["ridge"]] = found["others"]["ridge"]
            rows += [row(study, f"{start}: {what}", part, nulls) for what, part in drawn.items()]
            rows += [row(study, f"{start}: {OTHERS[null]}", found["others"][null], ()) for null in NULLS]
        last = results[_cases(study)["IID"]]
        nulls = [last["others"][null] for null in NULLS]
        rows.append(row(study, "exact feature, IID: mlp", last["exact"], nulls))
        rows.append(row(study, "the record's own picture", last["itself"], ()))
    return rows


def _draw(studies: Sequence[Study], results: Results, path: Path) -> None:
    found = [{name: results[job] for name, job in _cases(study).items()} for study in studies]
    strips = [Strip("target", tuple(pictures_of(f["IID"]["targets"]) for f in found))]
    for name in found[0]:
        drawn = tuple(pictures_of(f[name]["mlp"]["float64, rank-one"]["pictures"]) for f in found)
        strips.append(Strip(name, drawn))
    strips.append(Strip("exact feature", tuple(pictures_of(f["IID"]["exact"]["pictures"]) for f in found)))
    strips.append(
        Strip("null: class mean", tuple(pictures_of(f["IID"]["others"]["class-mean"]["pictures"]) for f in found))
    )
    draw_strips(studies, strips, path)


TABLES = (
    Table(
        "local_decoder",
        "Pictures by a decoder of the attacker's own rows",
        COLUMNS,
        _jobs,
        _rows,
        _draw,
        order=180,
        lacks=lacks,
    ),
)
