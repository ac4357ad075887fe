from __future__ import annotations

import pytest
from scipy.stats import binomtest

from exhume.simulate.statistics import clopper_pearson


@pytest.mark.parametrize("confidence", [0.95, 0.99])
@pytest.mark.parametrize(("hits", "trials"), [(0, 5), (3, 10), (92, 100), (100, 100), (1, 1)])
def test_it_is_scipys_exact_interval(hits: int, trials: int, confidence: float) -> None:
    oracle = binomtest(hits, trials).proportion_ci(confidence, "exact")
    assert clopper_pearson(hits, trials, confidence) == pytest.approx((oracle.low, oracle.high))


@pytest.mark.parametrize(
    ("hits", "trials", "interval"),
    [(92, 100, (0.8484, 0.9648)), (100, 100, (0.9638, 1)), (500, 500, (0.9926, 1)), (49, 500, (0.0734, 0.1275))],
)
def test_it_gives_the_published_intervals(hits: int, trials: int, interval: tuple[float, float]) -> None:
    assert clopper_pearson(hits, trials) == pytest.approx(interval, abs=5e-5)


def test_no_hit_has_a_closed_form() -> None:
    low, high = clopper_pearson(0, 5)
    assert low == 0
    assert high == pytest.approx(1 - 0.025 ** (1 / 5))


def test_no_trials_say_nothing() -> None:
    assert clopper_pearson(0, 0) == (0.0, 1.0)
