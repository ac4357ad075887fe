"""When a measured value agrees with a published one: one rule for each kind of value, and how many cells follow it.

| kind | agrees if |
|---|---|
| count | the shares are equal |
| whole | the whole numbers (ranks, rows, answers) are equal, both ends of a range |
| percentage | it is within one percentage point, both ends of a range |
| error | sizes that rounding decides are within a factor of 2, both ends of a range |
| property | what the data decide (condition numbers, ratios) is within a tenth, both ends of a range; of two means with
  spreads, within two standard errors of their difference |
| signed | the signs are the same, and the sizes within a factor of 2 |
| bound | it is below the published bound |
| most | it is more than half |

Zero and infinity agree with themselves alone. A cell that cannot be compared does not agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from exhume.errors import DataError
from exhume.paper.published import kinds
from exhume.paper.values import Below, Count, Mean, Most, Number, Range, Value, Words

__all__ = [
    "ERROR_FACTOR",
    "FACTORS",
    "KINDS",
    "POINTS",
    "PROPERTY_SHARE",
    "STANDARD_ERRORS",
    "Pair",
    "Tally",
    "gap",
    "kind_of",
    "tallies",
]

ERROR_FACTOR = 2.0
"""Errors of rounding agree within this factor."""
PROPERTY_SHARE = 0.1
"""What the data decide agrees within this share of the published value."""
POINTS = 1.0
"""Percentages agree within so many percentage points."""
STANDARD_ERRORS = 2.0
"""Means over few random draws agree within so many standard errors of their difference."""
FACTORS = (1.5, 2.0, math.sqrt(10))
"""How near cells are is told for each of these factors, whatever their rule; the last is half a decade."""

_SLACK = 1e-9
"""Relative slack of every threshold, far below the digits of published values: 2.0 times is within a factor of 2."""


@dataclass(frozen=True)
class Pair:
    """A published and a measured value of one kind, and over how many trials the means go."""

    published: Value
    measured: Value
    trials: int


def _ends(value: Value) -> tuple[float, ...]:
    match value:
        case Number():
            return (value.value,)
        case Mean():
            return (value.mean,)
        case Range():
            return (value.low, value.high)
    return ()


def _both(pair: Pair) -> list[tuple[float, float]]:
    """Return the published and measured numbers that face each other; a number faces both ends of a range."""
    theirs, ours = _ends(pair.published), _ends(pair.measured)
    if not theirs or not ours:
        return []
    count = max(len(theirs), len(ours))
    return list(zip(theirs * (count // len(theirs)), ours * (count // len(ours)), strict=True))


def _each(pair: Pair, near: Callable[[float, float], bool]) -> bool:
    """Whether all numbers that face each other are equal, or finite and near each other."""
    both = _both(pair)
    return bool(both) and all(a == b or (math.isfinite(a) and math.isfinite(b) and near(a, b)) for a, b in both)


def _factor(a: float, b: float) -> bool:
    return a * b > 0 and abs(math.log(b / a)) <= math.log(ERROR_FACTOR) + _SLACK


def _count(pair: Pair) -> bool:
    ours, theirs = pair.measured, pair.published
    return isinstance(ours, Count) and isinstance(theirs, Count) and ours.count * theirs.of == theirs.count * ours.of


def _whole(pair: Pair) -> bool:
    return _each(pair, lambda a, b: a == b)


def _percentage(pair: Pair) -> bool:
    return _each(pair, lambda a, b: abs(b - a) <= POINTS * (1 + _SLACK))


def _error(pair: Pair) -> bool:
    return _each(pair, lambda a, b: a > 0 and _factor(a, b))


def _property(pair: Pair) -> bool:
    ours, theirs = pair.measured, pair.published
    if isinstance(ours, Mean) and isinstance(theirs, Mean) and pair.trials > 1:
        error = math.hypot(ours.sd, theirs.sd) / math.sqrt(pair.trials)
        if abs(ours.mean - theirs.mean) <= STANDARD_ERRORS * error:
            return True
    return _each(pair, lambda a, b: abs(b - a) <= PROPERTY_SHARE * abs(a) * (1 + _SLACK))


def _signed(pair: Pair) -> bool:
    return _each(pair, _factor)


def _bound(pair: Pair) -> bool:
    ends = _ends(pair.measured)
    return isinstance(pair.published, Below) and bool(ends) and max(ends) < pair.published.limit


def _most(pair: Pair) -> bool:
    ours = pair.measured
    return isinstance(pair.published, Most) and isinstance(ours, Count) and 2 * ours.count > ours.of


KINDS: Mapping[str, Callable[[Pair], bool]] = {
    "count": _count,
    "whole": _whole,
    "percentage": _percentage,
    "error": _error,
    "property": _property,
    "signed": _signed,
    "bound": _bound,
    "most": _most,
}
"""The rules, by kind of value."""


def kind_of(table: str, column: str, published: Value) -> str | None:
    """Return the kind of a cell: as the published data say, else by what the value is; None of words."""
    match published:
        case Count():
            return "count"
        case Below():
            return "bound"
        case Most():
            return "most"
        case Words():
            return None
    found = kinds(table).get(column, "percentage" if column.endswith("%") else "error")
    if found not in KINDS:
        raise DataError(f"the published table {table} has a column of the kind '{found}', known are {', '.join(KINDS)}")
    return found


def gap(pair: Pair) -> float | None:
    """Return the difference of log10, measured minus published: of a range, of the end that differs most.

    Zero for equal values, of whatever sign and size; None for counts, claims, and where one of the two has no logarithm
    or another sign.
    """
    found = [0.0 if a == b else _log_ratio(a, b) for a, b in _both(pair)]
    known = [x for x in found if x is not None]
    return max(known, key=abs) if known and len(known) == len(found) else None


def _log_ratio(a: float, b: float) -> float | None:
    return math.log10(b / a) if a * b > 0 and math.isfinite(a * b) else None


@dataclass(frozen=True)
class Tally:
    """How many cells of one kind there are, agree by its rule, and lie within each of `FACTORS`."""

    kind: str
    cells: int
    agree: int
    sizes: int
    """Cells that have a ratio to the published value; only these can lie within a factor."""
    within: tuple[int, ...]

    def line(self) -> list[str]:
        """Return the cells of a table."""
        near = [f"{n}/{self.sizes}" if self.sizes else "–" for n in self.within]
        return [self.kind, str(self.cells), str(self.agree), *near]


def tallies(judged: Iterable[tuple[str, bool, float | None]]) -> list[Tally]:
    """Tally kind, agreement and gap of cells: one line per kind that occurs, and one of all together."""
    cells = list(judged)
    chosen = {kind: [cell for cell in cells if cell[0] == kind] for kind in KINDS}
    return [_tally(kind, found) for kind, found in {**chosen, "all": cells}.items() if found]


def _tally(kind: str, cells: list[tuple[str, bool, float | None]]) -> Tally:
    gaps = [abs(far) for _, _, far in cells if far is not None]
    within = tuple(sum(far <= math.log10(factor) + _SLACK for far in gaps) for factor in FACTORS)
    return Tally(kind, len(cells), sum(agrees for _, agrees, _ in cells), len(gaps), within)
