"""Noise calibrated on labelled rows: the cost is what drawn heads cost, and the most that fits is found."""

import numpy as np
import pytest

from exhume import Ledger, Summary
from exhume.defence import PosteriorNoise, sigma_within
from exhume.defence.calibration import LEAST, MOST, accuracy_lost
from exhume.errors import InputError
from exhume.protocol import Counts, Head, Occasion

D, C, GAMMA = 12, 4, 1e-2


def crowd(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, C, n)
    centres = np.random.default_rng(9).standard_normal((C, D))
    return np.maximum(rng.standard_normal((n, D)) + 0.8 * centres[y], 0.0), y


def ledger(n=300):
    return Ledger(Summary.of(*crowd(n, 0), C), GAMMA)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0])
def test_the_cost_is_that_of_drawn_heads(sigma):
    """Against whole heads from the release rule itself, drawn independently."""
    state, (F, y) = ledger(), crowd(2000, 1)
    exact = Head(state.head())
    occasion = Occasion(state, (), (), Counts())
    drawn = [
        100 * (exact.accuracy(F, y) - PosteriorNoise(sigma, bytes([k]) * 16).release(exact, occasion).accuracy(F, y))
        for k in range(1, 200)
    ]
    error = np.std(drawn) / np.sqrt(len(drawn))
    assert accuracy_lost(state, F, y, sigma) == pytest.approx(np.mean(drawn), abs=4 * error)


def test_the_most_that_fits_is_found():
    state, (F, y) = ledger(), crowd(2000, 1)
    sigma = sigma_within(state, F, y, 0.5)
    assert LEAST < sigma < MOST
    assert accuracy_lost(state, F, y, sigma) <= 0.5 < accuracy_lost(state, F, y, 1.11 * sigma)
    assert sigma_within(state, F, y, 2.0) > sigma
    # Every row four times, and four times the ridge: the same head, half the noise on a score.
    once = state.summary
    fourfold = Ledger(Summary(4 * once.gram, 4 * once.moment), 4 * GAMMA)
    assert sigma_within(fourfold, F, y, 0.5) == pytest.approx(2 * sigma, rel=0.11)


def test_bad_input_is_named():
    state, (F, y) = ledger(), crowd(20, 1)
    with pytest.raises(InputError, match="points must be above 0"):
        sigma_within(state, F, y, 0.0)
    with pytest.raises(InputError, match="features must be"):
        sigma_within(state, F[:, :3], y)
    with pytest.raises(InputError, match="features must be"):
        sigma_within(state, F[:0], y[:0])
    with pytest.raises(InputError, match="labels must be"):
        sigma_within(state, F, y[:3])
