"""Severity levels and the thresholds that define them: the one table that findings, verdict and docs share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from exhume.errors import unknown_name

__all__ = ["LEVELS", "MEANING", "THRESHOLDS", "Level", "Thresholds", "as_level", "at_least", "worst"]

Level = Literal["none", "aggregate", "label", "feature", "replay"]

LEVELS: tuple[Level, ...] = get_args(Level)
"""From harmless to worst."""

MEANING: dict[Level, str] = {
    "none": "Nothing beyond guessing came out.",
    "aggregate": "The summed statistics of what was deleted came out.",
    "label": "The class of a deleted record came out, better than guessing.",
    "feature": "The feature vector of a deleted record came out.",
    "replay": "What was deleted came out well enough to put it back: the deletion was undone.",
}


@dataclass(frozen=True)
class Thresholds:
    """What a finding must show to reach a level."""

    aggregate_error: float = 0.1
    """Relative errors of gram and of moment, both at most this, in a trial that counts."""
    label_p: float = 1e-3
    """Exact one-sided binomial test of the labels against the best blind guess: p at most this."""
    feature_error: float = 0.1
    """Relative error of the feature vector at most this, in a trial that counts (and below the blind guess's)."""
    replay_share: float = 0.1
    """Head error after the replay at most this share of what the deletion had changed, in a trial that counts (one
    whose sums or record came out, too: a head alone can come back with wrong sums)."""
    majority: float = 0.5
    """Aggregate, feature and replay need this share of all trials; failed ones stay in the denominator."""


THRESHOLDS = Thresholds()


def as_level(name: str) -> Level:
    """Return a level by its name."""
    for level in LEVELS:
        if level == name:
            return level
    raise unknown_name("fail-on", name, LEVELS)


def at_least(level: Level | None, floor: Level) -> bool:
    """Whether a level is as bad as another or worse; no level is not."""
    return level is not None and LEVELS.index(level) >= LEVELS.index(floor)


def worst(levels: Iterable[Level]) -> Level:
    """Return the worst of some levels; ``none`` for no level at all."""
    return max(levels, key=LEVELS.index, default="none")
