"""Reading by Bayes' rule: right where the record stands out, at chance where noise drowns it, and in between."""

import numpy as np
import pytest
from scipy import stats

from exhume import Head
from exhume.attack.recover import informed
from exhume.attack.recover.informed import Candidates, read_change
from exhume.attack.state import State
from exhume.errors import InputError

D, C = 10, 4


def world(seed=0, n=600):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, C, n)
    F = np.maximum(rng.standard_normal((n, D)) + 2.0 * np.random.default_rng(5).standard_normal((C, D))[y], 0.0)
    A = F.T @ F + 1e-3 * np.eye(D)
    W = np.linalg.solve(A, F.T @ np.eye(C)[y])
    return F, y, A, W


def share_right(s, tau=None, trials=250):
    F, y, A, W = world()
    own = Candidates(A, W, F[:300], y[:300], C)
    L, rng, hits = np.linalg.cholesky(A), np.random.default_rng(1), 0
    for i in range(300, 300 + trials):
        f, k = F[i], y[i]
        moment = np.outer(f, np.eye(C)[k] - W.T @ f) + s * L @ rng.standard_normal((D, C))
        gram = None
        if tau is not None:
            N = rng.standard_normal((D, D))
            gram = np.outer(f, f) + tau * L @ (N + N.T) @ L.T / np.sqrt(2)
        hits += read_change(own, moment, s, gram, tau or 0.0).label == k
    return hits


@pytest.mark.parametrize("tau", [None, 1e-6])
def test_a_record_that_stands_out_is_read(tau):
    assert share_right(1e-6, tau) >= 248


@pytest.mark.parametrize("tau", [None, 10.0])
def test_a_record_that_drowns_is_not(tau):
    hits = share_right(30.0, tau)
    assert stats.binomtest(hits, 250, 1 / C).pvalue > 1e-4


def test_between_the_two_own_rows_help():
    """Noise at which the leading direction is lost still lets the likelihood of own rows through."""
    assert stats.binomtest(share_right(0.03, 0.03), 250, 1 / C, alternative="greater").pvalue < 1e-4


def before_and_after(row=400):
    F, y, A, W = world()
    before = State.of(A, Head(W))
    gone, k = F[row], y[row]
    G = A @ W
    A_post, G_post = A - np.outer(gone, gone), G - np.outer(gone, np.eye(C)[k])
    after = State.of(A_post, Head(np.linalg.solve(A_post, G_post)))
    return F, y, before, after


def test_from_a_head_or_a_state_it_reads_the_change_that_they_show():
    F, y, before, after = before_and_after()
    own = Candidates(before.A, before.baseline.weights, F[:300], y[:300], C)
    moment = before.A @ (before.baseline.weights - after.baseline.weights)
    one = informed(before, after.baseline, features=F[:300], labels=y[:300], size=0.3)
    assert np.array_equal(one.feature, read_change(own, moment, 0.3).feature)
    assert not one.diagnostics.stands_out and any((one.feature == row).all() for row in F[:300])
    gram = before.A - after.A
    change = before.G - after.G - gram @ before.baseline.weights
    both = informed(before, after, own=own, size=1e-9, tau=1e-9)
    assert np.array_equal(both.feature, read_change(own, change, 1e-9, gram, 1e-9).feature)
    assert both.diagnostics.stands_out and both.label == y[400]
    np.testing.assert_allclose(both.feature, F[400], atol=1e-6)


def test_a_state_shows_its_moment_about_the_old_head():
    wrong = 0
    for row in range(400, 420):
        F, y, before, after = before_and_after(row)
        own = Candidates(before.A, before.baseline.weights, F[:300], y[:300], C)
        gram, moment = before.A - after.A, before.G - after.G
        found = informed(before, after, own=own, size=0.05, tau=10.0)
        assert not found.diagnostics.stands_out
        right = read_change(own, moment - gram @ before.baseline.weights, 0.05, gram, 10.0)
        assert np.array_equal(found.feature, right.feature)
        wrong += not np.array_equal(found.feature, read_change(own, moment, 0.05, gram, 10.0).feature)
    assert wrong > 0


def test_a_noise_that_is_not_given_is_that_of_the_whitened_change():
    F, y, before, after = before_and_after()
    rng = np.random.default_rng(0)
    L, s = np.linalg.cholesky(before.A), 50.0
    noisy = after.baseline.weights - np.linalg.solve(before.A, s * L @ rng.standard_normal((D, C)))
    found = informed(before, Head(noisy), features=F[:300], labels=y[:300])
    # The median of 40 draws has a standard error of about a fifth of the size.
    assert 0.4 * s < found.diagnostics.noise < 1.6 * s


def test_bad_calls():
    F, y, before, after = before_and_after()
    with pytest.raises(InputError, match="tau must be above 0 where a gram was seen"):
        informed(before, after, features=F, labels=y, size=1.0)
    with pytest.raises(InputError, match="features, labels must be at least one row"):
        informed(before, after.baseline, features=F[:0], labels=y[:0])


def test_a_longer_row_in_the_same_direction_fits_no_better():
    """The likelihood of a candidate charges it for its own length: the row that is there wins over ten times it."""
    a = np.array([1.0, 2.0, 0.5])
    own = Candidates(100 * np.eye(3), np.zeros((3, 2)), np.array([a, 10 * a]), np.array([0, 0]), 2)
    for scale, row in ((1.0, 0), (10.0, 1)):
        moment = np.outer(scale * a, [1.0, 0.0])
        found = read_change(own, moment, s=10.0)
        assert not found.diagnostics.stands_out
        np.testing.assert_array_equal(found.feature, own.features[row])


def test_the_estimated_size_is_unbiased_for_many_entries():
    rng = np.random.default_rng(0)
    d, c = 200, 50
    own = Candidates(np.eye(d), np.zeros((d, c)), np.ones((1, d)), np.array([0]), c)
    before = State.of(np.eye(d), Head(np.zeros((d, c))))
    found = informed(before, Head(-3.0 * rng.standard_normal((d, c))), own=own)
    # The median of n normal sizes has a relative standard error of about 1.2 / sqrt(n) = 1.2% here.
    assert found.diagnostics.noise == pytest.approx(3.0, rel=0.06)
