"""What changed since an earlier audit: worse, better, new and gone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import fisher_exact

from exhume.audit.items import JudgedAttack, items_in
from exhume.audit.levels import LEVELS, THRESHOLDS, at_least, worst
from exhume.errors import InputError

__all__ = ["Changes", "Earlier", "LevelChange", "compare", "read_earlier"]


@dataclass(frozen=True)
class Earlier:
    """The judged attacks of an earlier report."""

    file: str
    date: str
    items: tuple[JudgedAttack, ...]


@dataclass(frozen=True)
class LevelChange:
    """One attack then and now."""

    before: JudgedAttack
    after: JudgedAttack

    def __str__(self) -> str:
        text = f"{self.after.name}: {_level(self.before)} to {_level(self.after)}"
        if self.before.labels is None or self.after.labels is None:
            return text
        counts = f"{self.before.labels}/{self.before.trials} to {self.after.labels}/{self.after.trials}"
        return f"{text} (labels right {counts})"


@dataclass(frozen=True)
class Changes:
    """What became of every attack."""

    since: Earlier
    worse: tuple[LevelChange, ...]
    better: tuple[LevelChange, ...]
    same: int
    new: tuple[JudgedAttack, ...]
    gone: tuple[JudgedAttack, ...]

    def worsened(self) -> list[str]:
        """Return the names of what got worse, and of what is new and worse than anything before."""
        before = worst(item.level for item in self.since.items)
        new = [item.name for item in self.new if item.level != before and at_least(item.level, before)]
        return [change.after.name for change in self.worse] + new

    def lines(self) -> list[str]:
        """Return the comparison in words: the counts, then everything that got worse or is new and found something."""
        when = f" of {self.since.date}" if self.since.date else ""
        counts = f"{len(self.worse)} worse, {len(self.better)} better, {self.same} as before"
        lines = [f"Compared with {self.since.file}{when}: {counts}, {len(self.new)} new, {len(self.gone)} gone."]
        lines += [f"  Worse: {change}." for change in self.worse]
        lines += [f"  Better: {change}." for change in self.better]
        return lines + [f"  New: {item.text}" for item in self.new if item.level != "none"]


def read_earlier(path: Path) -> Earlier:
    """Read the report.json, or the output of ``--json``, of an earlier audit."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not str(content["schema"]).startswith("exhume-audit/"):
            raise ValueError
        return Earlier(path.name, str(content.get("date", "")), tuple(items_in(content)))
    except OSError as error:
        raise InputError("compare", "a file that can be read", f"'{path}' ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError("compare", "the report.json of an audit", f"'{path}'") from None


def compare(earlier: Earlier, items: Sequence[JudgedAttack]) -> Changes:
    """Set today's attacks beside those of an earlier report, by name."""
    old, now = {i.name: i for i in earlier.items}, {i.name: i for i in items}
    both = [LevelChange(old[name], now[name]) for name in now if name in old]
    worse = tuple(c for c in both if _is_worse(c.before, c.after))
    better = tuple(c for c in both if c not in worse and _is_worse(c.after, c.before))
    return Changes(
        earlier,
        worse,
        better,
        len(both) - len(worse) - len(better),
        tuple(now[name] for name in now if name not in old),
        tuple(old[name] for name in old if name not in now),
    )


def _is_worse(before: JudgedAttack, after: JudgedAttack) -> bool:
    """Whether the level rose or, at the same one, more labels came out than chance explains (Fisher's exact test)."""
    then, now = LEVELS.index(before.level), LEVELS.index(after.level)
    if then != now or before.labels is None or after.labels is None:
        return now > then
    table = np.array([[after.labels, after.trials - after.labels], [before.labels, before.trials - before.labels]])
    return bool(fisher_exact(table, alternative="greater").pvalue <= THRESHOLDS.label_p)


def _level(item: JudgedAttack) -> str:
    return item.level.upper() if item.estimated else "no estimate"
