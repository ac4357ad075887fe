import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from exhume import Ledger, Server, Summary, Update, errors
from exhume.defence.release import Chain, Heads, IsotropicNoise, PosteriorNoise
from exhume.defence.release._sticky import Sticky
from exhume.protocol import snap

D, C, GAMMA = 6, 3, 0.5
FALSE_ALARM = 1e-6


def rows(seed, n=30, scale=1.0):
    rng = np.random.default_rng(seed)
    return scale * np.abs(rng.normal(size=(n, D))), rng.integers(0, C, n)


def summary(seed, n=30, grid=None):
    features, labels = rows(seed, n)
    return Summary.of(snap(features, grid), labels, C)


def noise(rule, total, grid=None):
    ledger = Ledger(total, GAMMA, grid)
    return Server(ledger, release=rule).head().weights - ledger.head()


def key(number):
    return number.to_bytes(32, "big")


def test_posterior_noise_has_the_covariance_of_the_posterior():
    total, sigma, draws = summary(0), 0.3, 400
    A = total.gram + GAMMA * np.eye(D)
    L = np.linalg.cholesky(A)
    found = np.stack([noise(PosteriorNoise(sigma, key(i)), total) for i in range(draws)])
    white = np.einsum("ji,njc->nic", L, found) / sigma
    low, high = stats.chi2(white.size).ppf([FALSE_ALARM, 1 - FALSE_ALARM])
    assert low < (white**2).sum() < high
    # And in each direction: v' noise has variance sigma^2 v' A^-1 v.
    level = FALSE_ALARM / (D + 5)
    low, high = stats.chi2(draws * C).ppf([level, 1 - level])
    for v in np.vstack([np.eye(D), np.random.default_rng(1).normal(size=(5, D))]):
        spread = sigma**2 * v @ np.linalg.solve(A, v)
        assert low < (np.einsum("i,nic->nc", v, found) ** 2).sum() / spread < high
    # Whitened entries do not go together: each correlation of n pairs has a standard error of n^-1/2.
    flat = white.reshape(draws, -1)
    correlation = flat.T @ flat / draws - np.eye(D * C)
    pairs = D * C * (D * C - 1) / 2
    assert np.abs(np.triu(correlation, 1)).max() < stats.norm.isf(FALSE_ALARM / pairs) * 1.2 / np.sqrt(draws)


def test_isotropic_noise_has_the_same_variance_everywhere():
    found = np.stack([noise(IsotropicNoise(0.1, key(i)), summary(0)) for i in range(200)])
    low, high = stats.chi2(found.size).ppf([FALSE_ALARM, 1 - FALSE_ALARM])
    assert low < (found**2).sum() / 0.01 < high


@pytest.mark.parametrize("rule", [PosteriorNoise, IsotropicNoise])
def test_draws_belong_to_key_and_state(rule):
    total = summary(0)
    first = noise(rule(0.2, key(1)), total)
    np.testing.assert_array_equal(first, noise(rule(0.2, key(1)), total))
    assert not np.allclose(first, noise(rule(0.2, key(2)), total))
    one = Summary.of(*rows(5, 1), C)
    assert not np.allclose(first, noise(rule(0.2, key(1)), total + one))
    unkeyed = [noise(rule(0.2), total) for _ in range(2)]
    assert not np.allclose(*unkeyed)


def test_the_two_noises_do_not_share_draws():
    total = summary(0)
    L = np.linalg.cholesky(total.gram + GAMMA * np.eye(D))
    white = L.T @ noise(PosteriorNoise(1.0, key(1)), total)
    assert not np.allclose(white, noise(IsotropicNoise(1.0, key(1)), total))


@given(st.integers(0, 10_000), st.permutations(range(4)))
@settings(max_examples=25)
def test_on_a_grid_every_way_back_brings_the_same_head_bit_for_bit(seed, order):
    grid = 2.0**-12
    server = Server(Ledger(summary(0, grid=grid), GAMMA, grid), release=PosteriorNoise(0.2, key(1)))
    start = server.head().weights
    blocks = [summary(seed + i + 1, 3, grid) for i in range(4)]
    seen = [server.submit(Update.adding(b), "a").head.weights for b in blocks]
    for i in order:
        last = server.submit(Update.deleting(blocks[i]), "a").head.weights
    np.testing.assert_array_equal(last, start)
    assert not any(np.array_equal(w, start) for w in seen)


def test_without_a_grid_the_way_back_misses_its_draw_rarely():
    trips, missed = 150, 0
    server = Server(Ledger(summary(0, 200), GAMMA), release=PosteriorNoise(0.2, key(1)))
    start = server.head().weights
    for i in range(trips):
        block = summary(i + 1, 5)
        server.submit(Update.adding(block), "a")
        back = server.submit(Update.deleting(block), "a").head.weights
        missed += not np.allclose(back, start, rtol=1e-6)
    # Roundoff of some 2**-50 against a step of 2**-38, eight forms: below 1 in 500 a trip; then a wide margin.
    assert missed <= 4


def test_a_change_just_above_the_resolution_gets_noise_of_its_own():
    total = summary(0, 200)
    for share in (1e-9, 1e-6, 1e-3):
        nudged = total.with_moment(total.moment * (1 + share))
        rule = PosteriorNoise(0.2, key(1))
        assert not np.allclose(noise(rule, total), noise(rule, nudged), rtol=1e-3)


def test_a_restored_key_keeps_the_draws_and_precision_comes_last():
    total = summary(0)
    first = PosteriorNoise(0.2)
    again = PosteriorNoise(0.2)
    again.load(first.save())
    np.testing.assert_array_equal(noise(first, total), noise(again, total))
    with pytest.raises(errors.InputError, match="sigma"):
        PosteriorNoise(0.1).load(first.save())
    head = Server(Ledger(total, GAMMA), release=Chain([first, Heads("bfloat16")])).head()
    assert head.precision == "bfloat16" and (head.weights.astype(np.float32) == head.weights).all()


@pytest.mark.parametrize(("rule", "words"), [(IsotropicNoise, "isotropic_noise"), (PosteriorNoise, "posterior_noise")])
def test_the_draws_of_a_key_outlive_the_rules_name(rule, words):
    """The words in the seed are older than the names: other words would give saved keys other noise."""
    made, ledger = rule(0.1, key(7)), Ledger(summary(0), GAMMA)
    white = Sticky(key(7), words).draw(ledger, (D, C))
    np.testing.assert_allclose(noise(made, summary(0)), 0.1 * made.shaped(ledger, white), atol=1e-12)
