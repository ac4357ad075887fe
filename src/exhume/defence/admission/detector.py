"""A test over a client's whole sequence of messages, where a norm threshold sees one at a time.

Every message becomes a linear sketch, so totals, repetitions and cancellations are followed at the cost of a few short
vectors per client. Features of a sequence are turned into one score, and the score into a verdict by a threshold
calibrated on honest sequences: a fresh honest client exceeds it with at most the stated probability (split conformal;
it holds for clients exchangeable with those of the calibration, and says nothing about others).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from exhume.defence.admission._numbers import Sketch
from exhume.defence.admission._trail import FEATURES, Log, Trail, Watch
from exhume.defence.memory import Memory, Saveable, client_names
from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol import AdmissionRule, Update

__all__ = ["Detector"]


class Detector(Saveable, AdmissionRule):
    """Refuses, or only flags, clients whose sequence scores above what honest sequences do.

    The score is the largest of the features, each measured from the honest median in units of the honest spread
    (median to 95th percentile). A sequence's score is its highest so far.

    Parameters
    ----------
    d, c
        Size of the summaries.
    centre, spread
        Of each feature among honest sequences.
    threshold
        Score above which a client is flagged.
    rate
        The false-positive rate that the threshold was calibrated for.
    refuse_flagged
        Whether a message that would push the score above the threshold is refused; else the client is only put into
        `flagged`.
    seed
        The secret of the sketch; drawn if not given.
    """

    name = "detector"
    about = "no sequence of messages unlike honest ones"
    reads: ClassVar[str] = "everyone"
    example: ClassVar[Mapping[str, Any]] = {"centre": [0.0] * 6, "spread": [1.0] * 6, "threshold": 9.0, "rate": 0.1}

    def __init__(
        self,
        d: int,
        c: int,
        centre: Sequence[float],
        spread: Sequence[float],
        threshold: float,
        rate: float,
        *,
        refuse_flagged: bool = True,
        seed: int | None = None,
        size: int = 32,
    ) -> None:
        self.centre, self.spread = np.array(centre, dtype=np.float64), np.array(spread, dtype=np.float64)
        if self.centre.shape != (len(FEATURES),) or self.spread.shape != (len(FEATURES),):
            raise InputError("centre, spread", f"{len(FEATURES)} numbers each", (len(centre), len(spread)))
        if not (self.spread > 0).all():
            raise InputError("spread", "above 0", list(spread))
        self.threshold, self.rate = float(threshold), float(rate)
        self.refuse_flagged = refuse_flagged
        self.flagged: set[str] = set()
        self.sketch = Sketch(d, c, size, seed)
        self._watch = Watch(self.sketch)

    @classmethod
    def calibrated(
        cls,
        honest: Iterable[Log],
        *,
        rate: float = 0.01,
        refuse_flagged: bool = True,
        seed: int | None = None,
        size: int = 32,
    ) -> Detector:
        """Calibrate on logs of honest servers: every other client sets the scale, the rest the threshold.

        Fewer than ``1 / rate`` clients in the second half cannot promise the rate: the threshold is then their maximum,
        and `rate` says what it promises.
        """
        if not 0 < rate < 1:
            raise InputError("rate", "between 0 and 1", rate)
        logs = list(honest)
        if not logs or not logs[0]:
            raise InputError("honest", "at least one log with messages", "none")
        first = logs[0][0][1]
        sketch = Sketch(first.d, first.c, size, seed)
        paths = [path for log in logs for path in _paths(log, sketch).values()]
        if len(paths) < 4:
            raise InputError("honest", "logs of at least four clients", f"{len(paths)}")
        fit, held = paths[::2], paths[1::2]
        peaks = np.array([path.max(axis=0) for path in fit])
        centre = np.median(peaks, axis=0)
        # A feature that honest clients never show has no spread: one unit of its own then counts as one.
        spread = np.maximum(np.quantile(peaks, 0.95, axis=0) - centre, 0.1)
        scores = sorted(float(_scores(path, centre, spread).max()) for path in held)
        place = math.ceil((len(scores) + 1) * (1 - rate))
        promised = rate if place <= len(scores) else 1.0 / (len(scores) + 1)
        return cls(
            first.d,
            first.c,
            centre.tolist(),
            spread.tolist(),
            scores[min(place, len(scores)) - 1],
            promised,
            refuse_flagged=refuse_flagged,
            seed=sketch.seed,
            size=size,
        )

    def options(self) -> dict[str, Any]:
        """Return what a configuration file says of this detector: the calibration, without the secret."""
        return {
            "centre": [float(v) for v in self.centre],
            "spread": [float(v) for v in self.spread],
            "threshold": self.threshold,
            "rate": self.rate,
            "refuse_flagged": self.refuse_flagged,
        }

    def score(self, trail: Trail) -> float:
        """Return the score of a trail as it stands."""
        return float(_scores(trail.features()[None, :], self.centre, self.spread)[0])

    def judge(self, log: Log) -> dict[str, float]:
        """Return every client's highest score over a whole log, offline."""
        return {
            client: float(_scores(path, self.centre, self.spread).max())
            for client, path in _paths(log, self.sketch).items()
        }

    def refuse(self, update: Update, client: str) -> str | None:
        """Score the client's sequence with this message in it."""
        trail = self._watch.ahead(update, client)
        score = self.score(trail)
        if score <= self.threshold or not self.refuse_flagged:
            return None
        worst = FEATURES[int(((trail.features() - self.centre) / self.spread).argmax())]
        return f"{self.name}: the sequence of '{client}' scores {score:.2f} on {worst} (limit {self.threshold:.2f})"

    def record(self, update: Update, client: str) -> None:
        """Follow the client one message on; flag it if its score is above the threshold."""
        self._watch.record(update, client)
        trail = self._watch.trail(client)
        if trail is not None and self.score(trail) > self.threshold:
            self.flagged.add(client)

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments but the seed, which is kept with the memory."""
        return self.options() | {"d": self.sketch.d, "c": self.sketch.c, "size": self.sketch.size}

    def remembered(self) -> Memory:
        """Return the secret, who was flagged, and every trail."""
        watched, flagged = self._watch.remembered(), sorted(client_names(self.flagged))
        return Memory({**watched.values, "seed": self.sketch.seed, "flagged": flagged}, watched.arrays)

    def restore(self, memory: Memory) -> None:
        """Take over the secret, who was flagged, and every trail."""
        self.sketch = replace(self.sketch, seed=int(memory.values["seed"]))
        self.flagged = set(memory.values["flagged"])
        self._watch = Watch(self.sketch)
        self._watch.restore(memory)

    def __repr__(self) -> str:
        return f"Detector(rate={self.rate:g}, threshold={self.threshold:.3g}, refuse_flagged={self.refuse_flagged})"


def _paths(log: Log, sketch: Sketch) -> dict[str, Matrix]:
    """Return each client's features after each of its messages."""
    watch = Watch(sketch)
    rows: dict[str, list[Matrix]] = {}
    for client, update in log:
        watch.record(update, client)
        trail = watch.trail(client)
        assert trail is not None
        rows.setdefault(client, []).append(trail.features())
    return {client: np.array(path) for client, path in rows.items()}


def _scores(path: Matrix, centre: Matrix, spread: Matrix) -> Matrix:
    return np.asarray(((path - centre) / spread).max(axis=1))


RULES = (Detector,)
