"""The records of an audit of own settings: exposure, refusals, effect, price and privacy figures."""

from __future__ import annotations

from pydantic import Field

from exhume.audit.levels import Level
from exhume.records import Number, Record

__all__ = [
    "REMEDY_FILE",
    "CellService",
    "DefenceRecord",
    "Effect",
    "ExposureRecord",
    "Price",
    "PrivacyFigures",
    "PrivacySummary",
    "RemedyRecord",
    "RuleRecord",
    "SiegeRecord",
    "TrialService",
]

REMEDY_FILE = "server.toml"
"""The name of the proposed configuration in the folder of the report."""


class PrivacyFigures(Record):
    """What a budget or mask says of one deletion: mu and best advantage of one release, the quiet run, all releases.

    A mu of null is infinite: the deletion is not hidden.
    """

    mu_release: Number
    mu_run: Number
    mu_total: Number
    advantage_release: Number
    advantage_run: Number
    advantage_total: Number


class TrialService(Record):
    """What a server with settings of its own did in one trial, to the honest and to the attacker."""

    deletion_refused: str | None = None
    """Why the deletion was refused, in the rule's own words."""
    deletion_refused_by: str | None = None
    """The name of that rule."""
    head_withheld: bool = False
    """Whether no head went out after the deletion, so that the public one still has the deleted rows in it."""
    accuracy_public: Number = None
    """Test accuracy of the head that went out after the deletion."""
    messages: int = 0
    """Messages of the attacker's probe after the deletion, its cancellation included."""
    refused: dict[str, int] = Field(default_factory=dict)
    """Those that were refused, by rule."""
    withheld: int = 0
    """Heads withheld from the attacker's probes after the deletion."""
    replays_refused: dict[str, int] = Field(default_factory=dict)
    """Replays that were refused in every form, by recovery; such a replay is none."""
    exposure: Number = None
    """The attacker's exposure at the end."""
    privacy: PrivacyFigures | None = None


class ExposureRecord(Record):
    """What one client could know of the hidden state, by the server's accountant (or one that only watched)."""

    client: str
    attacker: bool
    value: Number
    """From 0 (nothing) to 1 (a state is identifiable)."""
    meaning: str
    rank: int | None = None
    needed: int | None = None
    current: int | None = None
    responses: int | None = None
    condition: Number = None
    state_error: Number = None


class CellService(Record):
    """What a server with settings of its own did before any deletion, to the honest and to the attacker."""

    uploads: int
    """Messages in which the clients sent their own rows."""
    uploads_refused: dict[str, int]
    """By rule."""
    uploads_withheld: int
    """Accepted uploads after which no head went out."""
    messages: int
    """Messages of the attacker's probe, its cancellation included."""
    refused: dict[str, int]
    """Those that were refused, by rule."""
    withheld: int
    """Heads withheld from the probe."""
    standing: bool
    """Whether the server refused to take the probe back."""


class RuleRecord(Record):
    """One rule in force; secrets are left out."""

    stage: str
    rule: str
    options: str


class Effect(Record):
    """One attack without and with the settings: same seed, same deletions."""

    kind: str
    probe: str
    recovery: str
    trials: int
    level_without: Level
    level_with: Level
    labels_without: int | None
    labels_with: int | None
    feature_error_without: Number
    feature_error_with: Number
    undone_without: Number
    undone_with: Number
    deletions_refused: int
    replays_refused: int


class SiegeRecord(Record):
    """What an attacker that knows the settings got out of them."""

    attack: str
    about: str
    trials: int
    """Deletions of one record each; those that were refused or gave no answer stay in the denominator."""
    guessed: int = 0
    """Deletions of which the attacker said something."""
    labels_correct: int | None = None
    """Null for an attacker that does not want to know."""
    features_right: int | None = None
    """Recovered features within the threshold of the level `feature`."""
    relerr_feature: Number = None
    """Median relative error of the recovered features."""
    replays: int = 0
    """Deletions that were put back, within a tenth of what was deleted."""
    messages: int = 0
    refused: dict[str, int] = Field(default_factory=dict)
    """The attacker's refused messages, by rule."""
    level: Level = "none"
    reason: str | None = None
    """The commonest reason why an attack failed."""
    error: str | None = None


class Price(Record):
    """What the settings cost the honest."""

    accuracy_lost: Number
    """Mean over the heads released after the deletions: test accuracy of the exact head minus that of the released."""
    heads: int
    """How many heads that is."""
    uploads: int
    uploads_refused: dict[str, int]
    """By rule."""
    uploads_withheld: int
    deletions: int
    deletions_refused: dict[str, int]
    """By rule."""
    deletions_withheld: int
    """Deletions made after which no head went out: the public one still has the deleted rows in it."""


class PrivacySummary(Record):
    """The privacy figures of one kind of deletion: median and worst over its trials."""

    kind: str
    deletions: int
    median: PrivacyFigures
    worst: PrivacyFigures


class DefenceRecord(Record):
    """The settings under audit, their effect and their price."""

    name: str
    rules: tuple[RuleRecord, ...]
    severity_without: Level
    severity_with: Level
    effects: tuple[Effect, ...]
    price: Price
    attack_messages: int
    """Messages of all probe sequences, before and after the deletions; replays apart."""
    attack_refused: dict[str, int]
    """Those that were refused, by rule."""
    attack_withheld: int
    """Those that were accepted but not answered by a new head."""
    exposure_without: Number
    """The attacker's highest exposure on the bare server; null where it was not measured."""
    exposure_with: Number
    exposure_honest: Number
    """The highest exposure of any other client, with the settings."""
    privacy: tuple[PrivacySummary, ...]
    sieges: tuple[SiegeRecord, ...] = ()
    """The attackers that know the settings."""
    caveat: str
    """What this audit did not try."""


class RemedyRecord(Record):
    """A configuration that the audit proposes, and what it did in the same trials."""

    name: str
    configuration: str
    """The TOML file to copy; it is also written beside the report."""
    command: str
    """What audits it."""
    measured: DefenceRecord | None = None
    reason: str | None = None
    """Why it was not measured, where it was not."""
