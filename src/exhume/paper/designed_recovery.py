"""Deletion recovery with the designed probe, float64 heads.

Samples are 100 of all training rows without replacement, ``default_rng(7)``; classes are all ten; clients are those of
the partitions seeded 0 to 19, deleted one after another on the attacked branch, which replays each block at once (the
walk of `client_replay`). All start from the same ledger of everybody's rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.cells import Pick
from exhume.paper.plan import Study
from exhume.paper.table import (
    TARGET_SEED,
    Results,
    Row,
    Table,
    class_picks,
    deletions,
    designed_cell,
    designed_chains,
    errors,
    labels,
    rank_one,
    successes,
)
from exhume.paper.values import Count, Mean, Value
from exhume.paper.work import Job, Result

__all__ = ["COLUMNS", "TABLE", "level_cells", "sample_jobs"]

COLUMNS = ("success", "labels", "RelErr(G)", "RelErr(S)", "rank-one labels", "rank-one feature error")


def sample_jobs(study: Study, heads: str) -> list[Job]:
    """Return the sample deletions."""
    picks = [Pick("sample", i, TARGET_SEED + study.seed) for i in range(study.plan.samples)]
    return deletions(study, designed_cell(study, heads), picks)


def _classes(study: Study) -> list[Job]:
    return deletions(study, designed_cell(study), class_picks(study))


def _jobs(study: Study) -> list[Job]:
    return [*sample_jobs(study, "float64"), *_classes(study), *designed_chains(study)]


def level_cells(trials: list[Result], single: bool, interval: bool = False) -> dict[str, Value | None]:
    """Return the columns of one level; labels only where one record was deleted."""
    return {
        "success": successes(trials),
        "RelErr(G)": errors(trials, "relerr_moment"),
        "RelErr(S)": errors(trials, "relerr_gram"),
        **({"labels": labels(trials, interval=interval), **rank_one(trials, interval)} if single else {}),
    }


def _rows(studies: Sequence[Study], results: Results) -> list[Row]:
    rows = []
    for study in studies:
        for level, jobs in (("sample", sample_jobs(study, "float64")), ("class", _classes(study))):
            trials = [results[job] for job in jobs]
            rows.append(Row(study.data, study.source.title, level, level_cells(trials, level == "sample"), len(trials)))
        steps = [step for job in designed_chains(study) for step in results[job]["steps"]]
        done = [step for step in steps if step["identified"]]
        cells: dict[str, Value | None] = {
            "success": Count(len(done), len(steps)),
            "RelErr(G)": Mean.of(step["moment"] for step in done),
            "RelErr(S)": Mean.of(step["gram"] for step in done),
        }
        rows.append(Row(study.data, study.source.title, "client", cells, len(steps)))
    return rows


TABLE = Table("designed_recovery", "Deletion recovery, designed probe, float64 heads", COLUMNS, _jobs, _rows)
