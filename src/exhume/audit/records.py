"""The records that an audit writes: trials, cells, findings and the whole report, with their JSON schema."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from exhume.audit.levels import Level
from exhume.audit.records_defence import CellService, DefenceRecord, ExposureRecord, RemedyRecord, TrialService
from exhume.audit.records_live import LiveRecord, RankPoint
from exhume.records import Number, Record

__all__ = [
    "SCHEMA",
    "CellRecord",
    "Finding",
    "LiveRecord",
    "RankPoint",
    "RecoveryRecord",
    "Report",
    "Spread",
    "TrialRecord",
    "Verdict",
]

SCHEMA = "exhume-audit/2"


class RecoveryRecord(Record):
    """What one recovery made of one deletion, scored against the truth."""

    recovery: str
    relerr_gram: Number
    relerr_moment: Number
    relerr_feature: Number = None
    label: int | None = None
    label_correct: bool | None = None
    known: bool | None = None
    """Whether the attacker's own check stands by it; null for recoveries without one."""
    min_eigenvalue: Number = None
    membership: Number = None
    """The chance that a deleted record is ranked above another of its class by the block alone; 0.5 is guessing."""
    replay_head_error: Number = None
    """Null also where the server refused the raw block; a server with settings of its own is offered the projected one
    then, and this is of the one that it took."""
    replay_head_error_psd: Number = None
    accuracy_replay: Number = None
    responses_first: int
    responses_next: int
    messages_first: int
    messages_next: int


class TrialRecord(Record):
    """One deletion under attack."""

    probe: str
    server: str
    """Who was attacked: ``bare``, or the name of the operator's settings."""
    precision: str
    kind: str
    """What was deleted: a record, a class or a client."""
    number: int
    """Which row, class or client it was."""
    rows: int
    identified: bool
    reason: str | None = None
    """Why identification failed."""
    error: str | None = None
    """Why the whole trial failed, if it did."""
    label: int | None = None
    feature_guess_error: Number = None
    """Relative feature error of the best blind guess: the attacker's own mean feature of the right class."""
    deletion_head_change: Number = None
    """How far the deletion itself moved the head, relative."""
    accuracy_before: Number = None
    accuracy_after: Number = None
    amplification: Number = None
    state_error_pre: Number = None
    state_error_post: Number = None
    rank_post: int | None = None
    kappa_post: Number = None
    recoveries: tuple[RecoveryRecord, ...] = ()
    service: TrialService | None = None
    """Only for a server with settings of its own."""

    def of(self, recovery: str) -> RecoveryRecord | None:
        """Return what one recovery found, if it ran."""
        return next((r for r in self.recoveries if r.recovery == recovery), None)


class CellRecord(Record):
    """One probe against one server, before any deletion."""

    probe: str
    server: str
    precision: str
    identified: bool
    reason: str | None = None
    error: str | None = None
    responses: int = 0
    rank: int | None = None
    live: int | None = None
    """The rank that identifies the state: how many features the probe can speak of, which are not zero in all of the
    attacker's rows where it is made of these."""
    faint: bool = False
    """Whether the weakest direction of the answers to a made-up probe is within the rounding of the heads: the probe is
    too small to show anything."""
    kappa: Number = None
    state_error: Number = None
    cancellation_residual: Number = None
    """Relative head residual after the cancellation, as the attacker sees it."""
    messages: int = 0
    flagged: int = 0
    """Probe messages above the batch-matched honest 99th percentile of magnitude (cancellation and replay apart)."""
    magnitude_ratio: Number = None
    """Median of magnitude over that percentile."""
    false_positives: Number = None
    """Share of fresh honest batches that the same thresholds flag."""
    curve: tuple[RankPoint, ...] = ()
    exposure: tuple[ExposureRecord, ...] = ()
    """Every client's exposure after the probe sequence, with all uploads made through the server."""
    service: CellService | None = None
    """Only for a server with settings of its own."""


class Spread(Record):
    """Mean, median and worst of an error over the trials where it exists."""

    mean: Number
    median: Number
    max: Number


class Finding(Record):
    """One judged cell: a probe, a server, a recovery and a kind of deletion."""

    data: str
    encoder: str
    dim: int
    probe: str
    server: str
    precision: str
    recovery: str
    kind: str
    trials: int
    identified: int
    """Trials that gave an estimate; where this is 0, nothing can be said of what would have come out."""
    identified_low: Number
    identified_high: Number
    labels_correct: int | None
    labels_low: Number
    labels_high: Number
    labels_chance: Number
    """Success rate of the best blind guess: always the class that is most frequent among the honest records."""
    labels_p: Number
    relerr_gram: Spread | None
    relerr_moment: Spread | None
    relerr_feature: Spread | None
    feature_guess_error: Number
    rank: int | None
    kappa: Number
    responses_first: int | None
    responses_next: int | None
    messages_first: int | None
    messages_next: int | None
    replay_head_error: Number
    """Median relative head error after the raw block is replayed."""
    replay_head_error_psd: Number
    replay_undone: Number
    """Median share of the head change by the deletion that the replay took back; 1 is all of it."""
    membership: Number = None
    """Median chance that the block ranks a deleted record above another of its class: who was in the deletion. Null for
    one record, and for at least as many as there are features."""
    messages_flagged: int
    messages_probe: int
    magnitude_ratio: Number
    reached: tuple[Level, ...]
    severity: Level
    reason: str | None = None
    """The commonest reason why a trial gave no estimate: a failed test, a refusal, a withheld head."""


class Verdict(Record):
    """The outcome in plain language."""

    severity: Level | None
    """Null where there is no verdict: nothing could be tried, or what was tried could show nothing."""
    text: str
    guarantee: Number = None
    """The largest advantage over guessing that the server's own privacy account leaves to any attack whatever, over the
    audited deletions; null without an account."""
    next_steps: tuple[str, ...] = ()
    """What to do now."""


class Report(Record):
    """Everything that one audit found."""

    schema_name: str = Field(default=SCHEMA, alias="schema", serialization_alias="schema")
    version: str
    date: str
    """When it was made: UTC, to the minute."""
    command: str
    seed: int
    settings: dict[str, Any]
    data: dict[str, Any]
    scenario: dict[str, Any]
    verdict: Verdict
    findings: tuple[Finding, ...]
    cells: tuple[CellRecord, ...]
    failures: tuple[dict[str, str], ...]
    live: LiveRecord | None = None
    defence: DefenceRecord | None = None
    """The operator's own settings, where an audit had some."""
    remedy: RemedyRecord | None = None
    """The configuration that the audit proposes, where something came out."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
