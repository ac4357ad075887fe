"""The records of a live audit: what was done to the target, and what it gave away."""

from __future__ import annotations

from exhume.records import Number, Record

__all__ = ["LiveDeletion", "LiveDeletions", "LiveReader", "LiveRecord", "RankPoint"]


class RankPoint(Record):
    """The observed stack after so many responses."""

    responses: int
    rank: int
    sigma_min: Number
    """Smallest singular value over the largest; below the tolerance the direction counts as absent."""


class LiveDeletion(Record):
    """A deletion that was played on a live target, with a record of the operator's own."""

    label_right: bool
    feature_error: Number
    """Relative error of the recovered feature; null where nothing came out."""
    replayed: Number
    """Share of the deletion's change of the head that putting the record back undid; null where that was refused."""
    residual: Number
    """Relative distance of the head from the one before the record came in, when everything was undone."""


class LiveReader(Record):
    """One way to read deleted records from the heads of a live service."""

    name: str
    labels_right: int
    p: Number
    """Exact one-sided binomial test of the labels against the best blind guess; null where nothing was tried."""
    highest: Number
    """Upper end of the 95% interval of its rate of right labels: what it could have missed."""
    features_right: int
    """Records whose feature vector came out within the threshold."""
    feature_error: Number
    """Median relative error of the feature vector; null where none came out."""


class LiveDeletions(Record):
    """Deletions that were played on a live service with rows, and what was read of them."""

    planned: int
    tries: int
    """Those in which nobody else sent between the two heads."""
    chance: Number
    """Rate of the best blind guess: always the class that is most frequent among all rows of the run."""
    owner: bool
    """Whether a second client owned the records; else the attacker's own client did."""
    readers: tuple[LiveReader, ...]
    replays: int
    replayed: Number
    """Median share of the deletion's change of the head that putting the record back undid; null where none was put
    back."""


class LiveRecord(Record):
    """What was done to a live target, and what it gave away."""

    target: str
    dim: int
    classes: int
    precision: str
    probe: str
    scale: Number = None
    """The largest harmless scale of made-up probes, at most the one asked for; null for probes of own rows."""
    dry_run_residual: Number
    noise: Number = None
    """The server's own arithmetic, as the dry run measured it: relative error of a head."""
    messages: int
    responses: int
    identified: bool
    estimator: str | None = None
    """What made the best of the answers."""
    reason: str | None
    rank: int | None
    live: int | None = None
    """How many features the probe can speak of."""
    faint: bool = False
    """Whether the weakest direction of the answers is within the server's own arithmetic."""
    kappa: Number
    prediction_error: Number
    """Relative error with which the identified state foretold the answer to a probe that it had not seen."""
    residual: Number
    """Relative head residual after everything was cancelled."""
    restored: bool
    interrupted: bool = False
    failed: bool = False
    """Whether the target broke down, so that the outcome says nothing about it."""
    actions: tuple[str, ...]
    curve: tuple[RankPoint, ...] = ()
    deletion: LiveDeletion | None = None
    """What became of a whole deletion; null where no second client was there to own a record."""
    rows_made_up: bool | None = None
    """Whether rows that were shown were made up within the service's bounds; null where none were shown."""
    deletions: LiveDeletions | None = None
    """Deletions that were played with shown rows; null where none were."""
