"""Which rows a live audit shows: the operator's own, or made up within the service's public bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from exhume.audit.settings import Settings
from exhume.data.own import read_own
from exhume.errors import InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.target import ServiceTarget

__all__ = ["RowSupply"]

SHORTER = 0.95
"""Made-up rows are at most this share of the longest that is allowed: rounding to a grid lengthens some."""

ENOUGH = 4
"""Own rows that are used, at most, per feature."""


@dataclass(frozen=True, eq=False)
class RowSupply:
    """The attacker's rows, and the records that are deleted."""

    features: Matrix
    labels: Rows
    record_features: Matrix
    record_labels: Rows
    responses: int
    most: int
    """Rows of one message."""
    made_up: bool
    left_out: int
    rng: np.random.Generator

    @classmethod
    def of(cls, target: ServiceTarget, settings: Settings) -> RowSupply:
        """Choose rows that the service takes.

        Raises
        ------
        InputError
            If there are no rows: none are given, and the service names no bounds to make some up in; or all are longer
            than the bounds allow.
        """
        rng = np.random.default_rng([settings.seed, 9])
        features, labels, left_out = _given(target, settings, rng)
        d, c = target.shape
        records = min(settings.trials, len(labels) // 2)
        if not records:
            raise InputError(
                "features", "at least two rows within the bounds: one to delete and one to send", len(labels)
            )
        bounds = target.bounds
        most = min(target.most_rows, int(bounds["message_rows"]) if bounds else target.most_rows)
        standing = int(bounds["client_rows"]) - 1 if bounds else len(labels)
        own = min(len(labels) - records, ENOUGH * d, max(standing, 1))
        wanted = settings.responses if settings.responses is not None else 2 * math.ceil(d / c)
        return cls(
            features=features[records : records + own],
            labels=labels[records : records + own],
            record_features=features[:records],
            record_labels=labels[:records],
            responses=min(max(wanted, math.ceil(own / most)), own),
            most=most,
            made_up=settings.features is None,
            left_out=left_out,
            rng=rng,
        )

    @property
    def about(self) -> str:
        """Which rows these are, in words."""
        kind = "made-up rows within the service's bounds" if self.made_up else "rows of the file"
        out = f"; left out {self.left_out} rows longer than the bounds" if self.left_out else ""
        return f"took {len(self.labels)} {kind} to send, and {len(self.record_labels)} more to delete{out}"

    @property
    def chance(self) -> float:
        """Rate of the best blind guess: always the class that is most frequent among all these rows."""
        every = np.concatenate([self.labels, self.record_labels])
        return float(np.bincount(every).max()) / len(every)

    def batches(self) -> Iterator[tuple[Matrix, Rows]]:
        """Cut the attacker's rows into messages."""
        for rows in np.array_split(self.rng.permutation(len(self.labels)), self.responses):
            yield self.features[rows], self.labels[rows]

    def unseen(self) -> tuple[Matrix, Rows]:
        """Return half of the attacker's rows, or as many as a message may have."""
        half = self.rng.permutation(len(self.labels))[: min((len(self.labels) + 1) // 2, self.most)]
        return self.features[half], self.labels[half]

    def records(self) -> Iterator[tuple[Matrix, Rows]]:
        """Return the records that are deleted, one by one."""
        for i in range(len(self.record_labels)):
            yield self.record_features[i : i + 1], self.record_labels[i : i + 1]


def _given(target: ServiceTarget, settings: Settings, rng: np.random.Generator) -> tuple[Matrix, Rows, int]:
    d, c = target.shape
    bounds = target.bounds
    if settings.features is None:
        if bounds is None:
            raise InputError("features", "a file of rows: the service names no bounds to make rows up in", "none")
        count = min(ENOUGH * d, int(bounds["client_rows"])) + settings.trials
        rows = np.abs(rng.standard_normal((count, d)))
        lengths = SHORTER * bounds["longest"] * rng.uniform(0.5, 1.0, count)
        rows *= (lengths / np.linalg.norm(rows, axis=1))[:, None]
        return rows, rng.integers(0, c, count), 0
    features, labels, _, _ = read_own(settings.features, settings.labels)
    if features.shape[1] != d:
        raise InputError("features", f"rows of {d} features, as the target's head", features.shape[1])
    if labels.max() >= c:
        raise InputError("labels", f"below {c}, the target's classes", int(labels.max()))
    short = np.full(len(labels), True)
    if bounds is not None:
        short = np.linalg.norm(features, axis=1) <= bounds["longest"]
        if not short.any():
            shortest = float(np.linalg.norm(features, axis=1).min())
            raise InputError("features", f"rows at most {bounds['longest']:g} long, the service's bound", shortest)
    order = rng.permutation(np.flatnonzero(short))
    return features[order], labels[order], int((~short).sum())
