"""How large a run is: the paper's own sizes, and the stated subsample of ``--quick``.

The quick sizes take the first of the same draws, so that a full run later finds those trials in the store.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from exhume.errors import InputError, unknown_name
from exhume.paper.feature_source import FeatureSource, heading

__all__ = ["FULL", "QUICK", "Sizes", "Study"]


@dataclass(frozen=True)
class Sizes:
    """Numbers of trials."""

    records: int = 100
    """Record deletions with the designed probe."""
    classes: int = 10
    """Class deletions, designed and attacker data."""
    partitions: int = 20
    """Client partitions, with the designed probe."""
    clients: int = 50
    """Clients deleted in each partition from float32 heads (float64 deletes all of them one after another)."""
    seeds: int = 5
    """Splits of the attacker-data and 768-dimensional experiments."""
    own_records: int = 100
    own_clients: int = 20
    sequences: int = 5
    """Random probe sequences."""
    scale_records: int = 20
    """Deletions per probe scale."""
    calibration: int = 5000
    held_out: int = 10000
    decoded: int = 200
    """Deleted records whose pictures decoders draw, in each partition."""
    name: str = "full"

    def resized(self, changes: Iterable[str]) -> Sizes:
        """Return the sizes with some changed, each given as ``name=number``."""
        known = [field.name for field in fields(self) if field.name != "name"]
        sizes: dict[str, int] = {}
        for change in changes:
            name, _, number = change.partition("=")
            name = name.replace("-", "_")
            if name not in known:
                raise unknown_name("size", name, known)
            if not number.isdecimal() or int(number) < 1:
                raise InputError(f"size {name}", "a whole number of at least 1", f"'{number}'")
            sizes[name] = int(number)
        return replace(self, name=f"{self.name}, resized", **sizes) if sizes else self

    def sentence(self) -> str:
        """Say the sizes in words."""
        return (
            f"{self.records} record and {self.classes} class deletions with the designed probe, and the clients of "
            f"{self.partitions} partitions (all from float64 heads, {self.clients} of each from float32); "
            f"{self.seeds} attacker-data seeds of {self.own_records} records, {self.classes} classes and "
            f"{self.own_clients} clients; {self.sequences} random sequences; {self.scale_records} deletions per probe "
            f"scale; {self.calibration} calibration and {self.held_out} held-out honest messages; "
            f"{self.decoded} decoded records per partition"
        )


FULL = Sizes()
QUICK = Sizes(
    records=20,
    classes=4,
    partitions=1,
    clients=20,
    seeds=2,
    own_records=10,
    own_clients=4,
    sequences=3,
    scale_records=3,
    decoded=20,
    name="quick",
)


@dataclass(frozen=True)
class Study:
    """One data set under one encoder at one size."""

    source: FeatureSource
    sizes: Sizes = FULL
    seed: int = 0
    """Added to every seed; 0 is the paper's own choice of records and splits."""
    members: int = 50
    """Clients in a split."""
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.alpha < math.inf:
            raise InputError("alpha", "a positive finite number", self.alpha)

    @property
    def data(self) -> str:
        """Name of the data set."""
        return self.source.data

    @property
    def title(self) -> str:
        """Data and encoder as figures name them."""
        return f"{heading(self.data)} ({self.source.title})"

    @property
    def d(self) -> int:
        """Feature dimensions."""
        return self.source.shape[0]

    @property
    def c(self) -> int:
        """Classes."""
        return self.source.shape[1]

    @property
    def bound(self) -> int:
        """The dimensional lower bound on responses, ``ceil(d/c)``."""
        return math.ceil(self.d / self.c)

    @property
    def classes(self) -> int:
        """How many class deletions to run."""
        return min(self.sizes.classes, self.c)

    @property
    def own_seeds(self) -> range:
        """Seeds of the attacker-data splits."""
        return range(self.seed, self.seed + self.sizes.seeds)

    @property
    def partition_seeds(self) -> range:
        """Seeds of the partitions whose clients are deleted."""
        return range(self.seed, self.seed + self.sizes.partitions)
