"""From the cells of a matrix to one line per defence, and from the operator's needs to one defence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta, binom

from exhume.errors import InputError

__all__ = ["Needs", "Row", "recommend", "rows_of", "upper"]

MARGIN = 0.05
"""The goal: no attack recovers labels better than chance plus this."""

LEVEL = 0.05
"""The goal is refuted where what was seen is less likely than this."""


@dataclass(frozen=True)
class Needs:
    """What the operator can afford."""

    max_accuracy_loss: float = 0.2
    """In points."""
    max_staleness: float = 0.0
    """Mean number of accepted changes that the public head may not show yet."""
    serve_all: bool = True
    """Whether every honest message must be served."""

    def __post_init__(self) -> None:
        if not self.max_accuracy_loss >= 0:
            raise InputError("max_accuracy_loss", "at least 0", self.max_accuracy_loss)
        if not self.max_staleness >= 0:
            raise InputError("max_staleness", "at least 0", self.max_staleness)


@dataclass(frozen=True)
class Row:
    """One defence: what the best attack gets, and what it costs."""

    defence: str
    label_rate: float
    """Highest share of labels that any attack recovered, of all deletions (failures count)."""
    label_upper: float
    """Upper end of its 95% interval (Clopper-Pearson, for the worst attack alone)."""
    worst: str
    """The attack that did."""
    p_value: float
    """How likely so many right labels are at chance plus five points, times the number of attacks (at most 1)."""
    feature_error: float
    """Lowest median relative error of the recovered feature, over attacks."""
    replay_rate: float
    """Highest share of deletions that an attack recovered and put back."""
    told_replay_rate: float
    """The same for an attacker who was told the block."""
    damage: float
    """Points of accuracy that `burn` took."""
    accuracy_lost: float
    staleness: float
    head_error: float
    refused: int
    sent: int
    deletions_served: int
    deletions_asked: int
    errors: int
    """Cells of this defence that failed to run."""

    @property
    def exact(self) -> bool:
        """Whether released heads are those of a server that never saw the deleted rows, to float64 roundoff."""
        return self.head_error < 1e-9

    def fits(self, needs: Needs) -> bool:
        """Whether the operator can afford it."""
        served = self.refused == 0 and self.deletions_served == self.deletions_asked
        return (
            self.accuracy_lost <= needs.max_accuracy_loss
            and self.staleness <= needs.max_staleness
            and (served or not needs.serve_all)
            and self.errors == 0
        )

    def refutes(self) -> bool:
        """Whether the run refutes the goal: labels at most five points above chance, and no replay.

        The best of many attacks lies above chance by luck alone, so the test allows for their number.
        """
        return self.p_value < LEVEL or self.replay_rate > 0


def upper(successes: int, trials: int, level: float = 0.95) -> float:
    """Return the upper end of the two-sided Clopper-Pearson interval."""
    if successes >= trials:
        return 1.0
    return float(beta.ppf(0.5 + level / 2, successes + 1, trials - successes))


def rows_of(records: Sequence[dict[str, Any]], chance: float) -> list[Row]:
    """Return one row per defence, in the order of the records."""
    names = list(dict.fromkeys(r["defence"] for r in records))
    mine = ([r for r in records if r["defence"] == name] for name in names)
    return [row for name, own in zip(names, mine, strict=True) if (row := _row(name, own, chance)) is not None]


def _row(name: str, records: list[dict[str, Any]], chance: float) -> Row | None:
    honest = next((r["honest"] for r in records if "honest" in r), None)
    scored = [(r, r["score"]) for r in records if "score" in r]
    if honest is None or not scored:
        return None
    readers = [(r, s) for r, s in scored if r["attack"] not in ("burn", "replay")]
    worst, top = max(readers, key=lambda pair: _rate(pair[1], "labels"), default=(None, None))
    errors = [float(np.median(s["feature_errors"])) for _, s in readers if s["feature_errors"]]
    told = [_rate(s, "replays") for r, s in scored if r["attack"] == "replay"]
    damage = [d for r, s in scored if r["attack"] == "burn" for d in s["damage"]]
    return Row(
        defence=name,
        label_rate=_rate(top, "labels") if top is not None else math.nan,
        label_upper=upper(top["labels"], top["trials"]) if top is not None else math.nan,
        worst="-" if worst is None else worst["attack"] + (" (busy)" if worst["busy"] else ""),
        p_value=min([1.0, *(len(readers) * _excess(s, chance + MARGIN) for _, s in readers)]),
        feature_error=min(errors, default=math.nan),
        replay_rate=max((_rate(s, "replays") for _, s in readers), default=0.0),
        told_replay_rate=max(told, default=math.nan),
        damage=max(damage, default=math.nan),
        accuracy_lost=honest["accuracy_lost"],
        staleness=honest["staleness"],
        head_error=honest["head_error"],
        refused=honest["refused"],
        sent=honest["sent"],
        deletions_served=honest["deletions_served"],
        deletions_asked=honest["deletions_asked"],
        errors=sum(1 for r in records if r.get("error")),
    )


def _excess(score: dict[str, Any], share: float) -> float:
    """Return the chance of at least as many right labels if each is right with a probability of ``share``."""
    return float(binom.sf(int(score["labels"]) - 1, int(score["trials"]), min(share, 1.0)))


def _rate(score: dict[str, Any], what: str) -> float:
    return float(score[what]) / max(int(score["trials"]), 1)


def recommend(rows: Sequence[Row], needs: Needs) -> Row | None:
    """Return the affordable defence that leaks least, then damages least, then costs least.

    Defences whose goal the run does not refute leak alike as far as it can tell: among them, luck shall not decide.
    """
    able = [row for row in rows if row.fits(needs)]
    if not able:
        return None

    def order(row: Row) -> tuple[float, ...]:
        error = 0.0 if math.isnan(row.feature_error) else -min(row.feature_error, 1.0)
        damage = 0.0 if math.isnan(row.damage) else max(row.damage, 0.0)
        told = 0.0 if math.isnan(row.told_replay_rate) else row.told_replay_rate
        leak = row.label_rate if row.refutes() else 0.0
        lost = round(max(row.accuracy_lost, 0.0), 1)
        return (row.replay_rate, leak, told, round(damage, 1), lost, row.staleness, row.label_rate, error)

    return min(able, key=order)
