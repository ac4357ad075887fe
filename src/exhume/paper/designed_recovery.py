"""Deletion recovery with the designed probe, float64 heads.

Records are 100 of all training rows without replacement, ``default_rng(7)``; classes are all ten; clients are those of
the partitions seeded 0 to 19, deleted one after another on the attacked branch, which replays each block at once (the
walk of `client_replay`). All start from the same ledger of everybody's rows. The last row pools all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.cells import Victim
from exhume.paper.study import Study
from exhume.paper.table import (
    IN_PAPER,
    TARGET_SEED,
    Results,
    Table,
    TableRow,
    class_victims,
    deletions,
    designed_cell,
    designed_walks,
    errors,
    labels,
    rank_one,
    row,
    successes,
)
from exhume.paper.values import Count, Mean, Value
from exhume.paper.work import Job, Result

__all__ = ["COLUMNS", "TABLES", "kind_cells", "record_jobs"]

COLUMNS = ("success", "labels", "RelErr(G)", "RelErr(S)", "rank-one labels", "rank-one feature error")


def record_jobs(study: Study, precision: str) -> list[Job]:
    """Return the record deletions."""
    victims = [Victim("record", i, TARGET_SEED + study.seed) for i in range(study.sizes.records)]
    return deletions(study, designed_cell(study, precision), victims)


def _classes(study: Study) -> list[Job]:
    return deletions(study, designed_cell(study), class_victims(study))


def _jobs(study: Study) -> list[Job]:
    return [*record_jobs(study, "float64"), *_classes(study), *designed_walks(study)]


def kind_cells(trials: list[Result], single: bool, interval: bool = False) -> dict[str, Value | None]:
    """Return the columns of one kind of deletion; labels only where one record was deleted."""
    return {
        "success": successes(trials),
        "RelErr(G)": errors(trials, "relerr_moment"),
        "RelErr(S)": errors(trials, "relerr_gram"),
        **({"labels": labels(trials, interval=interval), **rank_one(trials, interval)} if single else {}),
    }


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        for kind, jobs in (("record", record_jobs(study, "float64")), ("class", _classes(study))):
            trials = [results[job] for job in jobs]
            rows.append(row(study, IN_PAPER[kind], kind_cells(trials, kind == "record"), len(trials)))
        steps = [step for job in designed_walks(study) for step in results[job]["steps"]]
        done = [step for step in steps if step["identified"]]
        cells: dict[str, Value | None] = {
            "success": Count(len(done), len(steps)),
            "RelErr(G)": Mean.of(step["moment"] for step in done),
            "RelErr(S)": Mean.of(step["gram"] for step in done),
        }
        rows.append(row(study, "client", cells, len(steps)))
    return [*rows, *_pooled(studies, rows)]


def _pooled(studies: Sequence[Study], rows: Sequence[TableRow]) -> list[TableRow]:
    """Return the successes of all rows together, where there are several studies."""
    if len(studies) < 2:
        return []
    counts = [count for r in rows if isinstance(count := r.cells["success"], Count)]
    total = Count(sum(c.count for c in counts), sum(c.of for c in counts))
    data = "+".join(study.data for study in studies)
    return [TableRow(data, studies[0].source.title, "all attacks", {"success": total}, total.of)]


TABLES = (
    Table("designed_recovery", "Deletion recovery, designed probe, float64 heads", COLUMNS, _jobs, _rows, order=20),
)
