"""The records of a matrix: one per cell, as they are stored and as other programs read them."""

from __future__ import annotations

from pydantic import Field

from exhume.records import Number, Record

__all__ = ["HONEST", "CellResult", "HonestRecord", "ScoreRecord"]

HONEST = "honest traffic"
"""The column of the matrix without an attack: what a defence costs."""


class HonestRecord(Record):
    """What a defence costs without any attack."""

    accuracy: float
    accuracy_lost: float
    staleness: float
    head_error: float
    sent: int
    refused: int
    deletions_asked: int
    deletions_served: int


class ScoreRecord(Record):
    """What an attack got out of a defence."""

    trials: int
    deleted: int = 0
    guessed: int = 0
    labels: int = 0
    replays: int = 0
    feature_errors: tuple[Number, ...] = ()
    damage: tuple[float, ...] = ()
    honest_refused: int = 0
    messages: int = 0
    refused: dict[str, int] = Field(default_factory=dict)
    failures: dict[str, int] = Field(default_factory=dict)

    @property
    def label_rate(self) -> float:
        """Share of labels recovered, of all deletions."""
        return self.labels / max(self.trials, 1)

    @property
    def replay_rate(self) -> float:
        """Share of deletions put back, of all deletions."""
        return self.replays / max(self.trials, 1)


class CellResult(Record):
    """One cell of the matrix: an attack against a defence, or a defence without an attack."""

    attack: str
    defence: str
    busy: bool = False
    honest: HonestRecord | None = None
    score: ScoreRecord | None = None
    error: str | None = None
    """Why the cell could not be run."""
