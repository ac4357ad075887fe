"""One record as far as too few responses determine it."""

import numpy as np

from exhume.attack import estimate, recover
from tests.attack.worlds import clustered


def cosine(a, b):
    return abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b)


def test_a_record_as_far_as_the_span_allows():
    world = clustered()
    transcript = world.attack.run(world.probe("random", scale=1e4, responses=4))
    row = world.others[0]
    state = estimate.partial(transcript)
    found = recover.partial(state, world.head_after(row)).diagnostics
    assert cosine(found.inside, state.basis.T @ world.features[row]) > 1 - 1e-9
    assert 0 < found.outside_share < 1
    W = world.head_after(row).weights
    truth = np.eye(4)[world.labels[row]] - W.T @ world.features[row]
    assert cosine(found.right, truth) > 1 - 1e-9
    whole = recover.partial(estimate.partial(transcript, guess=world.A), world.head_after(row))
    assert whole.label == world.labels[row]
    np.testing.assert_allclose(whole.feature, world.features[row], atol=1e-5 * np.linalg.norm(world.features[row]))


def test_a_whole_state_is_determined_everywhere():
    world = clustered()
    row = world.others[3]
    found = recover.partial(world.state, world.head_after(row))
    assert found.label == world.labels[row] and found.diagnostics.outside_share < 1e-12
    np.testing.assert_allclose(found.feature, world.features[row], atol=1e-6)
