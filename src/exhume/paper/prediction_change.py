"""Change of test predictions when the final honest head is rounded to float32."""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.messages import Rounding
from exhume.paper.plan import Study
from exhume.paper.table import Results, Row, Table
from exhume.paper.values import Count, Number, Value
from exhume.paper.work import Job

__all__ = ["TABLE"]


def _jobs(study: Study) -> list[Job]:
    return [Job(study.source, Rounding())]


def _rows(studies: Sequence[Study], results: Results) -> list[Row]:
    rows = []
    for study in studies:
        found = results[_jobs(study)[0]]
        cells: dict[str, Value | None] = {
            "changed predictions": Count(found["changed"], found["rows"]),
            "accuracy, %": Number(100 * found["accuracy"]),
            "accuracy float32, %": Number(100 * found["accuracy_rounded"]),
            "head rounding error": Number(found["head_error"]),
        }
        rows.append(Row(study.data, study.source.title, "final head", cells, found["rows"]))
    return rows


TABLE = Table(
    "prediction_change",
    "Prediction change from float32 heads",
    ("changed predictions", "accuracy, %", "accuracy float32, %", "head rounding error"),
    _jobs,
    _rows,
)
