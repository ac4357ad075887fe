"""Moments to the precision of the ledger, whatever that of the heads."""

import numpy as np
import pytest

from exhume import Head, ReleaseRule
from exhume.attack import recover
from exhume.attack.estimate import gram_guess
from exhume.attack.state import State
from exhume.attack.strategies import conditioned, zoom
from exhume.attack.strategies.zoom import centre
from exhume.errors import AttackError, InputError, RefusedError
from tests.attack.worlds import clustered, gap


@pytest.mark.parametrize("heads", ["float32", "bfloat16", "12bits"])
def test_conditioned_probes_and_zoom_recover_the_record_to_the_ledgers_precision(heads):
    world = clustered(precision=heads)
    state = conditioned(world.attack, gram_guess(world.own_features, len(world.features)), rounds=2)
    before = zoom(world.attack, state, responses=10)
    assert before.converged
    assert gap(before.G, world.server.ledger.summary.moment) < 1e-10
    for row in world.others[:5]:
        _, attack = world.after(row)
        after = zoom(attack, state, start=before.G, responses=8)
        sample = recover.zoomed(before.state, after.state)
        assert sample.label == world.labels[row]
        assert gap(sample.feature, world.features[row]) < 1e-6


def test_everything_submitted_is_taken_back():
    world = clustered(precision="bfloat16")
    start = world.server.ledger.summary
    state = conditioned(world.attack, gram_guess(world.own_features, len(world.features)))
    zoom(world.attack, state)
    assert np.array_equal(world.server.ledger.summary.gram, start.gram)
    assert gap(world.server.ledger.summary.moment, start.moment) < 1e-9


def test_a_wrong_state_does_not_converge_and_says_so():
    world = clustered()
    assert not zoom(world.attack, State.of(3.0 * world.A, world.target.head()), responses=5).converged


def test_bad_calls():
    world = clustered()
    with pytest.raises(InputError, match="responses must be at least 1"):
        zoom(world.attack, world.state, responses=0)


class Moments:
    """A server with a moment alone, of which the tests decide what it takes and tells."""

    def __init__(self, A, G, refuses=(), withholds=()):
        self.A, self.G, self.refuses, self.withholds = A, G.copy(), refuses, withholds
        self.calls = 0

    def move(self, change):
        self.calls += 1
        if self.calls in self.refuses:
            raise RefusedError("enough")
        self.G = self.G + change
        return None if self.calls in self.withholds else Head(np.linalg.solve(self.A, self.G))


G = np.arange(6.0).reshape(3, 2) + 1.0


@pytest.mark.parametrize("when", [1, 2, 3])
def test_a_refusal_ends_the_centring_with_what_is_known_by_then(when):
    server = Moments(2.0 * np.eye(3), G, refuses=(when,))
    found = centre(server.move, 1.9 * np.eye(3), 0.5 * G, responses=4)
    assert isinstance(found.stopped, RefusedError)
    assert found.taken == len(found.sizes) == when - 1
    np.testing.assert_allclose(found.G, (1 - 0.5 * 0.05 ** (when - 1)) * G, rtol=1e-12)
    np.testing.assert_allclose(server.G, G, rtol=1e-12)


def test_a_withheld_head_ends_it_too():
    server = Moments(2.0 * np.eye(3), G, withholds=(2,))
    found = centre(server.move, 1.9 * np.eye(3), 0.5 * G, responses=4)
    assert isinstance(found.stopped, AttackError) and "withheld" in str(found.stopped)
    assert (found.taken, len(found.sizes)) == (2, 1)
    np.testing.assert_allclose(server.G, G, rtol=1e-12)


def test_a_step_beyond_the_limit_is_not_taken():
    server = Moments(1e-3 * np.eye(3), G)
    found = centre(server.move, np.eye(3), 0.5 * G, responses=4, limit=10 * np.linalg.norm(G))
    assert "diverged" in str(found.stopped)
    assert np.array_equal(found.G, 0.5 * G)
    np.testing.assert_allclose(server.G, G, rtol=1e-12)


def test_a_cancellation_that_is_refused_is_said():
    found = centre(Moments(np.eye(3), G, refuses=(2,)).move, np.eye(3), 0.5 * G, responses=1)
    assert isinstance(found.stopped, RefusedError) and found.taken == 1


class Quiet(ReleaseRule):
    """Releases nothing."""

    def release(self, head, occasion):
        return None


def test_a_zoom_that_ends_early_is_an_error_and_leaves_nothing_behind():
    world = clustered()
    start = world.server.ledger.summary
    world.server._release = Quiet()
    with pytest.raises(AttackError, match="withheld"):
        zoom(world.attack, world.state, start=start.moment)
    assert gap(world.server.ledger.summary.moment, start.moment) < 1e-12
