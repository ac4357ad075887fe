"""What an audit judged, one line each: the findings on the audited server and the attackers that know its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exhume.audit.levels import LEVELS, MEANING, Level
from exhume.audit.plan import BARE
from exhume.audit.records import Report
from exhume.audit.verdict import quantity

__all__ = ["JudgedAttack", "items_in", "items_of"]


@dataclass(frozen=True)
class JudgedAttack:
    """One judged attack, by a name that is the same in every run."""

    name: str
    """Such as ``record/own-data/float32/rank-one`` or ``attacker/averaging``."""
    level: Level
    estimated: bool
    labels: int | None
    trials: int
    feature_error: float | None

    @property
    def text(self) -> str:
        """What came out, in one sentence."""
        if not self.estimated:
            return f"{self.name}: no estimate in {self.trials} trials."
        parts = [] if self.labels is None else [f"labels right {self.labels}/{self.trials}"]
        parts += [] if self.feature_error is None else [f"features off by {quantity(self.feature_error)}"]
        more = f" ({'; '.join(parts)})" if parts else ""
        return f"{self.name}: {MEANING[self.level]}{more}"


def items_of(report: Report) -> list[JudgedAttack]:
    """Return the items of a report."""
    return items_in(report.model_dump(mode="json", by_alias=True))


def items_in(content: Mapping[str, Any]) -> list[JudgedAttack]:
    """Return the items of a report as its JSON has them; raises KeyError, TypeError or ValueError for anything else."""
    defence = content.get("defence")
    items = [_finding(f) for f in content["findings"] if defence is None or f["server"] != BARE]
    items += [_siege(s) for s in (defence or {}).get("sieges", ())]
    return items


def _finding(found: Mapping[str, Any]) -> JudgedAttack:
    server = found["precision"] if found["server"] == BARE else found["server"]
    error = (found["relerr_feature"] or {}).get("median")
    return JudgedAttack(
        "/".join(str(part) for part in (found["kind"], found["probe"], server, found["recovery"])),
        _level(found["severity"]),
        found["identified"] > 0,
        found["labels_correct"],
        int(found["trials"]),
        error,
    )


def _siege(found: Mapping[str, Any]) -> JudgedAttack:
    said = bool(found["guessed"] or found["replays"])
    name, error = f"attacker/{found['attack']}", found["relerr_feature"]
    return JudgedAttack(name, _level(found["level"]), said, found["labels_correct"], int(found["trials"]), error)


def _level(name: str) -> Level:
    return LEVELS[LEVELS.index(name)]
