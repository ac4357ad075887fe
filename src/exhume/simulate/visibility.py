"""Detectability: the size of the attacker's messages against honest batches of the same size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exhume.attack.probes import Probe
from exhume.numerics import Matrix
from exhume.simulate.scenario import Scenario

__all__ = ["Conspicuous", "judge_messages"]

CALIBRATION = 400
"""Honest batches per batch size that the 99th percentile is taken from; as many again test it."""

QUANTILE = 0.99


@dataclass(frozen=True)
class Conspicuous:
    """How the messages of one probe run compare with honest additions of the same number of records."""

    messages: int
    flagged: int
    ratio: float
    """Median of magnitude over the honest 99th percentile."""
    false_positives: float
    """Share of fresh honest batches above it."""


def judge_messages(scenario: Scenario, probe: Probe, rng: np.random.Generator) -> Conspicuous:
    """Compare each probe message with honest batches of as many records; cancellation and replay are left out.

    A message of moment-only pairs counts one record per pair. An honest batch comes from one honest client, chosen in
    proportion to its rows; a client with fewer rows than the batch is passed over, and if none has enough, rows of all
    honest clients are drawn together.
    """
    sizes = _sizes(probe)
    thresholds: dict[int, float] = {}
    hits = tests = 0
    for size in sorted(set(sizes)):
        sample = _honest(scenario, size, 2 * CALIBRATION, rng)
        thresholds[size] = float(np.quantile(sample[:CALIBRATION], QUANTILE))
        hits += int((sample[CALIBRATION:] > thresholds[size]).sum())
        tests += CALIBRATION
    magnitudes = [step.update.magnitude for step in probe.steps()]
    ratios = np.array([m / thresholds[s] for m, s in zip(magnitudes, sizes, strict=True)])
    return Conspicuous(len(ratios), int((ratios > 1).sum()), float(np.median(ratios)), hits / tests)


def _sizes(probe: Probe) -> list[int]:
    batches = getattr(probe, "batches", None)
    if batches is not None:
        return [len(batch) for batch in batches]
    return [step.update.pairs for step in probe.steps()]


def _honest(scenario: Scenario, size: int, count: int, rng: np.random.Generator) -> Matrix:
    """Magnitudes of honest additions: the root of ``|S|^2 + |G|^2``, from row products without forming S."""
    parts = [p for k, p in enumerate(scenario.parts) if k != scenario.attacker and len(p) >= size]
    parts = parts or [scenario.others]
    shares = np.array([len(p) for p in parts], dtype=float)
    found = np.empty(count)
    for i, chosen in enumerate(rng.choice(len(parts), count, p=shares / shares.sum())):
        part = parts[chosen]
        rows = rng.choice(part, size, replace=size > len(part))
        chosen = scenario.features[rows]
        kernel = chosen @ chosen.copy().T  # of one array NumPy computes half, with other last bits
        same = scenario.labels[rows][:, None] == scenario.labels[rows][None, :]
        found[i] = np.sqrt((kernel**2).sum() + kernel[same].sum())
    return found
