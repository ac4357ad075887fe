"""Identification from rounded heads: against Algorithm 1, and against plain least squares."""

import numpy as np
import pytest

from exhume.attack import probes
from exhume.attack.estimate import direct, gram_guess, symmetric
from exhume.attack.estimate.symmetric import _clipped
from exhume.errors import NotIdentifiedError
from tests.attack.worlds import clustered, gap


@pytest.mark.parametrize("seed", range(4))
def test_beats_the_direct_estimate_on_rounded_attacker_data(seed):
    world = clustered(precision="float32", seed=seed)
    transcript = world.attack.run(world.probe("own-data", responses=24, seed=seed))
    assert gap(symmetric(transcript).A, world.A) < gap(direct(transcript).A, world.A)


def test_agrees_with_the_direct_estimate_on_exact_heads():
    world = clustered()
    transcript = world.attack.run(world.probe("own-data", responses=24))
    assert gap(symmetric(transcript).A, direct(transcript).A) < 1e-8


def test_is_the_least_squares_solution_over_symmetric_matrices():
    world = clustered(d=6, c=2, precision="16bits")
    transcript = world.attack.run(probes.designed(6, 2))
    X, Z, d = transcript.X, transcript.Z, 6
    basis = [(i, j) for i in range(d) for j in range(i, d)]
    columns = []
    for i, j in basis:
        E = np.zeros((d, d))
        E[i, j] = E[j, i] = 1.0
        columns.append((E @ Z).ravel())
    best = np.linalg.lstsq(np.array(columns).T, X.ravel(), rcond=None)[0]
    H = np.zeros((d, d))
    for (i, j), value in zip(basis, best, strict=True):
        H[i, j] = H[j, i] = value
    np.testing.assert_allclose(symmetric(transcript).H, H, rtol=1e-8, atol=1e-10 * np.abs(H).max())


def test_too_coarse_heads_fail_with_a_reason_or_are_clipped_in_a_metric():
    world = clustered(d=48, inside=300, precision="5bits")
    transcript = world.attack.run(world.probe("own-data", responses=48))
    with pytest.raises(NotIdentifiedError, match="smallest eigenvalue of H"):
        symmetric(transcript)
    state = symmetric(transcript, guess=gram_guess(world.own_features))
    assert np.linalg.eigvalsh(state.A)[0] > 0


def test_random_halves_beat_cumulative_batches_at_the_same_number_of_responses():
    gains = []
    for seed in range(5):
        world = clustered(precision="float32", seed=seed)
        errors = []
        for mode in ("halves", "cumulative"):
            own = (world.own_features, world.own_labels, world.c)
            probe = probes.own_data(*own, responses=24, rng=np.random.default_rng(seed), mode=mode)
            start = world.server.ledger.summary
            errors.append(gap(symmetric(world.attack.run(probe)).A, world.A))
            assert gap(world.server.ledger.summary.gram, start.gram) < 1e-14
        gains.append(errors[1] / errors[0])
    assert np.median(gains) > 1.5


def test_rank_deficiency_fails():
    world = clustered()
    with pytest.raises(NotIdentifiedError, match="rank deficient"):
        symmetric(world.attack.run(probes.random(24, 4, rng=np.random.default_rng(1), responses=5)))


@pytest.mark.parametrize(
    ("values", "raised"),
    [
        ([-0.3, 0.1, 1.0, 5.0], [0.3, 0.3, 1.0, 5.0]),  # the most negative one shows the noise
        ([-1e-9, 1e-8, 1.0, 5.0], [5e-5, 5e-5, 1.0, 5.0]),  # but never less than 1e-5 of the largest
    ],
)
def test_clipping_raises_eigenvalues_to_the_noise_level_in_the_metric_of_the_guess(values, raised):
    rng = np.random.default_rng(0)
    metric = np.cov(rng.standard_normal((4, 40))) + np.eye(4)
    L = np.linalg.cholesky(metric)
    vectors = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    H = np.linalg.solve(L.T, np.linalg.solve(L.T, vectors @ np.diag(values) @ vectors.T).T)
    clipped = _clipped(H, metric)
    np.testing.assert_allclose(np.linalg.eigvalsh(L.T @ clipped @ L), raised, rtol=1e-9)


def test_the_head_is_averaged_over_all_responses():
    """Additions leave all heads alike: the rounding of the baseline alone must not decide the head of the state."""
    ours, released = [], []
    for seed in range(6):
        world = clustered(precision="12bits", seed=seed)
        transcript = world.attack.run(world.probe("own-data", responses=48, seed=seed))
        truth = world.server.ledger.head()
        ours.append(gap(symmetric(transcript, guess=gram_guess(world.own_features)).baseline.weights, truth))
        released.append(gap(transcript.baseline.weights, truth))
    assert np.median(ours) < 0.7 * np.median(released)
