"""What stands in a cell of a table: a count, a mean, a range or a number, published or measured alike.

Published values are written as text in the data files and parsed here: ``"92/100"`` (optionally ``"[0.85, 0.96]"``
behind it, a Clopper-Pearson interval), ``"4.14e-8 ± 2.67e-8"``, ``"468 .. 512"``, ``"1.06e6"``, ``"inf"``; claims are
``"< 6e-9"`` and ``"most"``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exhume.errors import InputError
from exhume.simulate.statistics import clopper_pearson

__all__ = ["Below", "Count", "Mean", "Most", "Number", "Range", "Value", "Words", "from_plain", "parse"]


def _number(x: float) -> str:
    if not math.isfinite(x):
        return "∞" if x > 0 else "−∞" if x < 0 else "nan"
    if x == 0:
        return "0"
    if x == int(x) and abs(x) < 1e4:
        return str(int(x))
    return f"{x:.{4 if abs(x) >= 10 else 3}g}" if 1e-2 <= abs(x) < 1e4 else f"{x:.2e}"


def _plain(x: float) -> float | str:
    """Return a number that strict JSON can hold."""
    return x if math.isfinite(x) else str(x)


@dataclass(frozen=True)
class Number:
    """One number."""

    value: float

    @classmethod
    def mean(cls, values: Iterable[float]) -> Number | None:
        """Average, without the spread; None of nothing."""
        found = Mean.of(values)
        return None if found is None else cls(found.mean)

    def __str__(self) -> str:
        return _number(self.value)

    @property
    def size(self) -> float | None:
        """The size that is compared on a logarithmic scale."""
        return self.value if self.value > 0 and math.isfinite(self.value) else None

    def plain(self) -> dict[str, Any]:
        """Return what goes into JSON."""
        return {"value": _plain(self.value)}


@dataclass(frozen=True)
class Mean:
    """Mean and (population) standard deviation."""

    mean: float
    sd: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean | None:
        """Average; None of nothing."""
        numbers = [float(v) for v in values]
        return cls(float(np.mean(numbers)), float(np.std(numbers))) if numbers else None

    def __str__(self) -> str:
        return f"{_number(self.mean)} ± {_number(self.sd)}"

    @property
    def size(self) -> float | None:
        """The size that is compared on a logarithmic scale."""
        return self.mean if self.mean > 0 and math.isfinite(self.mean) else None

    def plain(self) -> dict[str, Any]:
        """Return what goes into JSON."""
        return {"mean": _plain(self.mean), "sd": _plain(self.sd)}


@dataclass(frozen=True)
class Count:
    """So many of so many, with a Clopper-Pearson interval where the paper gives one."""

    count: int
    of: int
    interval: tuple[float, float] | None = None

    @classmethod
    def over(cls, outcomes: Sequence[bool], interval: bool = False) -> Count:
        """Count; failures stay in the denominator."""
        count = sum(outcomes)
        return cls(count, len(outcomes), clopper_pearson(count, len(outcomes)) if interval and outcomes else None)

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.count}/{self.of}"
        return f"{self.count}/{self.of} [{self.interval[0]:.4f}, {self.interval[1]:.4f}]"

    @property
    def size(self) -> float | None:
        """Counts are compared as they are, never on a logarithmic scale."""
        return None

    def plain(self) -> dict[str, Any]:
        """Return what goes into JSON."""
        extra = {} if self.interval is None else {"interval": list(self.interval)}
        return {"count": self.count, "of": self.of, **extra}


@dataclass(frozen=True)
class Range:
    """Smallest and largest."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Range | None:
        """Return the extremes; None of nothing."""
        numbers = [float(v) for v in values]
        return cls(min(numbers), max(numbers)) if numbers else None

    def __str__(self) -> str:
        return _number(self.low) if self.low == self.high else f"{_number(self.low)} .. {_number(self.high)}"

    @property
    def size(self) -> float | None:
        """The geometric middle, compared on a logarithmic scale."""
        return math.sqrt(self.low * self.high) if self.low > 0 and math.isfinite(self.high) else None

    def plain(self) -> dict[str, Any]:
        """Return what goes into JSON."""
        return {"low": _plain(self.low), "high": _plain(self.high)}


@dataclass(frozen=True)
class Words:
    """A judgement in words; never compared."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def size(self) -> float | None:
        """Words have no size."""
        return None

    def plain(self) -> dict[str, Any]:
        """Return what goes into JSON."""
        return {"words": self.text}


@dataclass(frozen=True)
class Below:
    """A claim: smaller than so much."""

    limit: float

    def __str__(self) -> str:
        return f"< {_number(self.limit)}"

    @property
    def size(self) -> float | None:
        """A bound is no size."""
        return None

    def plain(self) -> dict[str, Any]:
        """Return what goes into JSON."""
        return {"below": self.limit}


@dataclass(frozen=True)
class Most:
    """A claim: more than half."""

    def __str__(self) -> str:
        return "most"

    @property
    def size(self) -> float | None:
        """A claim is no size."""
        return None

    def plain(self) -> dict[str, Any]:
        """Return what goes into JSON."""
        return {"most": True}


Value = Number | Mean | Count | Range | Words | Below | Most

_COUNT = re.compile(r"(\d+)/(\d+)(?: \[([\d.]+), ([\d.]+)\])?")


def parse(text: str) -> Value:
    """Read a published value."""
    if found := _COUNT.fullmatch(text):
        interval = None if found[3] is None else (float(found[3]), float(found[4]))
        return Count(int(found[1]), int(found[2]), interval)
    if text == "most":
        return Most()
    try:
        if text.startswith("< "):
            return Below(float(text[2:]))
        if "±" in text:
            mean, sd = text.split("±")
            return Mean(float(mean), float(sd))
        if ".." in text:
            low, high = text.split("..")
            return Range(float(low), float(high))
        return Number(float(text))
    except ValueError as error:
        raise InputError(
            "published value", "a count, a mean ± sd, a range, a number, '< number' or 'most'", f"'{text}'"
        ) from error


def from_plain(plain: dict[str, Any] | None) -> Value | None:
    """Read what `plain` gave."""
    if plain is None:
        return None
    if "words" in plain:
        return Words(plain["words"])
    if "most" in plain:
        return Most()
    if "count" in plain:
        interval = plain.get("interval")
        return Count(plain["count"], plain["of"], None if interval is None else (interval[0], interval[1]))
    numbers = {name: float(value) for name, value in plain.items()}
    if "mean" in numbers:
        return Mean(numbers["mean"], numbers["sd"])
    if "below" in numbers:
        return Below(numbers["below"])
    return Range(numbers["low"], numbers["high"]) if "low" in numbers else Number(numbers["value"])
