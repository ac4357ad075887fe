"""Statistics of counted outcomes."""

from __future__ import annotations

from scipy.stats import beta

__all__ = ["clopper_pearson"]


def clopper_pearson(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact binomial interval of a rate; of no trials it is everything, (0, 1).

    It treats the trials as independent, as the paper's does.
    """
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high
