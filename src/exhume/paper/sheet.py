"""The cells of a table as CSV: one line a value, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from exhume.paper.comparisons import Comparison
from exhume.paper.values import Value

__all__ = ["FIELDS", "as_csv"]

_VALUE = (
    "value",
    "mean",
    "sd",
    "count",
    "of",
    "interval_low",
    "interval_high",
    "low",
    "high",
    "below",
    "most",
    "words",
)

FIELDS = ("table", "data", "encoder", "row", "column", "trials", "source", "agrees", "shown", *_VALUE)
"""The columns. ``source`` is measured or published, ``shown`` is the text of the page, the rest are its numbers."""


def as_csv(cells: Iterable[Comparison]) -> str:
    """Return the measured and the published value of every cell, a line each; what a value has not is empty."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, FIELDS, restval="", lineterminator="\n")
    writer.writeheader()
    for cell in cells:
        place = {name: getattr(cell, name) for name in FIELDS[:6]}
        place["agrees"] = ("no", "yes")[cell.agrees] if cell.comparable else ""
        for source in ("measured", "published"):
            value: Value | None = getattr(cell, source)
            if value is not None:
                writer.writerow({**place, "source": source, "shown": str(value), **_numbers(value)})
    return stream.getvalue()


def _numbers(value: Value) -> dict[str, Any]:
    plain = value.plain()
    low, high = plain.pop("interval", ("", ""))
    return {**plain, "interval_low": low, "interval_high": high}
