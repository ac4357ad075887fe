"""Change of test predictions when the final honest head is rounded to float32."""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.messages import HeadRounding
from exhume.paper.study import Study
from exhume.paper.table import Results, Table, TableRow, row
from exhume.paper.values import Count, Number, Value
from exhume.paper.work import Job

__all__ = ["TABLES"]


def _jobs(study: Study) -> list[Job]:
    return [Job(study.source, HeadRounding())]


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        found = results[_jobs(study)[0]]
        cells: dict[str, Value | None] = {
            "changed predictions": Count(found["changed"], found["rows"]),
            "accuracy, %": Number(100 * found["accuracy"]),
            "accuracy float32, %": Number(100 * found["accuracy_rounded"]),
            "head rounding error": Number(found["head_error"]),
        }
        rows.append(row(study, "final head", cells, found["rows"]))
    return rows


TABLES = (
    Table(
        "prediction_change",
        "Prediction change from float32 heads",
        ("changed predictions", "accuracy, %", "accuracy float32, %", "head rounding error"),
        _jobs,
        _rows,
        order=140,
    ),
)
