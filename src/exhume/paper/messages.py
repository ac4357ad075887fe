"""Work about honest messages: how large they are, what they do to the head, what rounding does to predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exhume.numerics import Rows, relative
from exhume.paper.cells import Split, dealt, request_p99
from exhume.paper.feature_source import FeatureSource
from exhume.paper.work import Result
from exhume.protocol.head import Head, round_to
from exhume.protocol.ledger import Ledger
from exhume.protocol.summary import Summary
from exhume.simulate.scenario import Scenario

__all__ = ["HeadRounding", "HonestRequests", "NormDetection"]


@dataclass(frozen=True)
class HonestRequests:
    """Honest requests to delete one record, over all training rows: 99th percentiles of size and of the head's change.

    The head changes by ``A^-1 f (y - W' f)' / (1 - f' A^-1 f)``, so that no row needs a server of its own.
    """

    gamma: float = 1e-3

    def run(self, source: FeatureSource) -> Result:
        """Size the requests and the changes of all rows."""
        found = source.load()
        features, labels = found.train_features, found.train_labels
        ledger = Ledger(Summary.of(features, labels, found.classes), self.gamma)
        moved = ledger.solve(features.T).T
        missed = np.eye(found.classes)[labels] - features @ ledger.head()
        stays = 1 - np.einsum("ij,ij->i", features, moved)
        changes = np.linalg.norm(moved, axis=1) * np.linalg.norm(missed, axis=1) / stays
        return {"request_p99": request_p99(source), "head_p99": float(np.percentile(changes, 99))}


@dataclass(frozen=True)
class NormDetection:
    """The per-message norm detector: thresholds per batch size from honest additions, tried on others and on probes.

    An honest addition is a batch of one honest client's rows, drawn without replacement; the client is drawn uniformly
    among those with enough rows. Batch sizes and splits run through those of the attackers' own batches.
    """

    splits: tuple[Split, ...]
    responses: int
    calibration: int
    held_out: int
    seed: int = 0

    def run(self, source: FeatureSource) -> Result:
        """Calibrate, then count what exceeds the thresholds."""
        stages = [dealt(source, split) for split in self.splits]
        probes = [self._probe(stage, split.seed) for stage, split in zip(stages, self.splits, strict=True)]
        slots = [(stage, len(batch)) for stage, batches in zip(stages, probes, strict=True) for batch in batches]
        rng = np.random.default_rng(self.seed)
        calibration = self._honest(slots, self.calibration, rng)
        limits = {
            size: float(np.percentile([norm for b, norm in calibration if b == size], 99))
            for size in {size for _, size in slots}
        }
        tested = self._honest(slots, self.held_out, rng)
        sent = [(len(b), _size(stage, b)) for stage, batches in zip(stages, probes, strict=True) for b in batches]
        return {
            "false_positives": sum(norm > limits[size] for size, norm in tested),
            "held_out": len(tested),
            "flagged": sum(norm > limits[size] for size, norm in sent),
            "sent": len(sent),
            "median_ratio": float(np.median([norm / limits[size] for size, norm in sent])),
        }

    def _probe(self, stage: Scenario, seed: int) -> list[Rows]:
        """Return the attacker's batches, the same as `own_data` cuts."""
        own = stage.parts[stage.attacker]
        return np.array_split(own[np.random.default_rng(seed).permutation(len(own))], self.responses)

    def _honest(
        self, slots: list[tuple[Scenario, int]], count: int, rng: np.random.Generator
    ) -> list[tuple[int, float]]:
        drawn = []
        for i in range(count):
            stage, size = slots[i % len(slots)]
            able = [k for k, part in enumerate(stage.parts) if k != stage.attacker and len(part) >= size]
            part = stage.parts[able[int(rng.integers(len(able)))]]
            drawn.append((size, _size(stage, rng.choice(part, size, replace=False))))
        return drawn


def _size(stage: Scenario, rows: Rows) -> float:
    """Return the magnitude of an addition: ``|F'F| = |FF'|``, which is the smaller matrix."""
    features, labels = stage.features[rows], stage.labels[rows]
    products = features @ features.T
    same: NDArray[np.bool_] = labels[:, None] == labels[None, :]
    return float(np.sqrt(np.vdot(products, products) + products[same].sum()))


@dataclass(frozen=True)
class HeadRounding:
    """What rounding the final honest head does to its predictions."""

    precision: str = "float32"
    gamma: float = 1e-3

    def run(self, source: FeatureSource) -> Result:
        """Predict the test rows with both heads."""
        found = source.load()
        exact = Ledger(Summary.of(found.train_features, found.train_labels, found.classes), self.gamma).head()
        rounded = round_to(exact, self.precision)
        before, after = (Head(head).predict(found.test_features) for head in (exact, rounded))
        return {
            "changed": int(np.count_nonzero(before != after)),
            "rows": len(before),
            "accuracy": float(np.mean(before == found.test_labels)),
            "accuracy_rounded": float(np.mean(after == found.test_labels)),
            "head_error": relative(rounded - exact, exact),
        }
