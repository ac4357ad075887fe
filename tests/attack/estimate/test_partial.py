"""What a run of too few responses determines."""

import numpy as np
import pytest

from exhume import Head
from exhume.attack.estimate import gram_guess, partial
from exhume.attack.transcript import Transcript
from exhume.errors import InputError, NotIdentifiedError
from tests.attack.worlds import clustered, gap


def deficient(world, responses=4):
    return world.attack.run(world.probe("random", scale=1e4, responses=responses))


def test_what_is_determined_is_right_and_the_rest_is_marked():
    world = clustered()
    state = partial(deficient(world))
    U, A = state.basis, state.A
    assert state.diagnostics.rank_X == U.shape[1] == 16
    V = np.linalg.svd(np.eye(24) - U @ U.T)[0][:, :8]
    assert gap(A @ U, world.A @ U) < 1e-8
    assert np.abs(V.T @ A @ V).max() < 1e-8 * np.abs(A).max()
    assert state.known_share == pytest.approx(1 - 8 * 9 / (24 * 25))
    assert np.array_equal(A, A.T) and gap(A @ state.H @ A, A) < 1e-6


def test_the_corner_is_the_guesss_and_nothing_else_is():
    world = clustered()
    transcript = deficient(world)
    assert gap(partial(transcript, guess=world.A).A, world.A) < 1e-8
    state = partial(transcript, guess=gram_guess(world.own_features, len(world.features)))
    assert gap(state.A @ state.basis, world.A @ state.basis) < 1e-8
    assert state.diagnostics.min_eigenvalue_A > 0
    assert gap(state.H, np.linalg.inv(state.A)) < 1e-6 and gap(state.G, state.A @ state.baseline.weights) < 1e-12


def test_full_rank_knows_everything():
    world = clustered()
    state = partial(world.attack.run(world.probe("designed", scale=1e4)))
    assert state.known_share == 1.0
    assert gap(state.A, world.A) < 1e-9


def test_responses_that_say_nothing_fail():
    still = Transcript(Head(np.ones((6, 2))), np.zeros((6, 4)), np.zeros((6, 4)), 2, None, "made", True)
    with pytest.raises(NotIdentifiedError, match=r"determine nothing: rank\(X\) = 0 \(2 responses\)") as error:
        partial(still, guess=np.eye(6))
    assert error.value.diagnostics.rank_X == 0


def test_a_guess_that_leaves_no_positive_definite_state_fails():
    world = clustered()
    with pytest.raises(NotIdentifiedError, match=r"unstable: .*positive definite"):
        partial(deficient(world), guess=-world.A)
    with pytest.raises(InputError, match="guess must be 24 x 24"):
        partial(deficient(world), guess=np.eye(3))
