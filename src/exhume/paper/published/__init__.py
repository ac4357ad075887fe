"""The published values as data, one file per table, named as the table; transcribed from the paper's LaTeX source.

Each file holds ``source`` (where in the paper), ``kinds`` (by which rule a column is compared, where its values do not
say it: `exhume.paper.agreement`) and, per data set and row, a value per column in the notation of
`exhume.paper.values.parse`. ``reasons.toml`` holds the hand-written part of explanations: of differences, and of ratios
that lie on one side throughout a table.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Any

from exhume.paper.values import Value, parse

__all__ = ["ENCODER", "kinds", "published", "ratio_reasons", "reasons", "source"]

ENCODER = "resnet18"
"""The encoder of the published values, except those of the table `dinov2`."""


@lru_cache(maxsize=64)
def _read(name: str) -> dict[str, Any]:
    file = files(__package__) / f"{name}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def source(table: str) -> str | None:
    """Return where in the paper a table stands; None if the paper does not have it."""
    found = _read(table).get("source")
    return None if found is None else str(found)


def kinds(table: str) -> dict[str, str]:
    """Return the kinds of the columns that name one."""
    return dict(_read(table).get("kinds", {}))


def published(table: str, data: str, row: str, column: str) -> Value | None:
    """Return one published value, if there is one."""
    text = _read(table).get("rows", {}).get(data, {}).get(row, {}).get(column)
    return None if text is None else parse(str(text))


def reasons() -> list[dict[str, str]]:
    """Return the hand-written reasons for differences: each has ``table``, maybe ``data``, ``row``, ``column``."""
    return list(_read("reasons").get("reason", []))


def ratio_reasons() -> list[dict[str, str]]:
    """Return the hand-written reasons for ratios that lie on one side: each has ``table``, maybe ``heads``."""
    return list(_read("reasons").get("ratio", []))
