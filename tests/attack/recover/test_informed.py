"""Reading by Bayes' rule: right where the record stands out, at chance where noise drowns it, and in between."""

import numpy as np
import pytest
from scipy import stats

from exhume.attack.recover.informed import Candidates, read_change

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
