"""Deleting what was never there."""

import numpy as np
import pytest

from exhume import AdmissionRule
from exhume.attack.strategies import burn
from exhume.attack.strategies.burn import largest_of_each
from exhume.errors import InputError, RefusedError
from tests.attack.worlds import World, clustered, norm


def test_burn_costs_accuracy():
    world = clustered()
    before = world.server.head().accuracy(world.features, world.labels)
    zeros = world.own_labels == 0
    after = burn(world.attack, world.own_features[zeros], world.own_labels[zeros], 4, times=2.5)
    assert after.accuracy(world.features, world.labels) < before


class Small(AdmissionRule):
    """Refuses a deletion whose gram is larger than a limit."""

    name = "small"

    def __init__(self, limit):
        self.limit = limit

    def refuse(self, update, client):
        return "small: too large" if norm(update.delete.gram) > self.limit else None


def test_of_several_sizes_the_first_that_is_taken_counts_and_parts_go_their_own_way():
    world = World()
    f, k = world.features[:2] * [[0.3], [0.9]], world.labels[:2]
    sizes = [norm(np.outer(row, row)) for row in f]
    world.server._admission = (Small(0.5 * sizes[1]),)
    gram, moment = world.server.ledger.summary.gram, world.server.ledger.summary.moment
    burn(world.attack, f, k, 4, times=(0.9, 0.4), parts=2)
    gone = gram - world.server.ledger.summary.gram
    np.testing.assert_allclose(gone, 0.9 * np.outer(f[0], f[0]) + 0.4 * np.outer(f[1], f[1]), atol=1e-10)
    want = np.outer(0.9 * f[0], np.eye(4)[k[0]]) + np.outer(0.4 * f[1], np.eye(4)[k[1]])
    np.testing.assert_allclose(moment - world.server.ledger.summary.moment, want, atol=1e-10)
    assert world.attack.cost.messages == 2
    world.server._admission = (Small(1e-9),)
    with pytest.raises(RefusedError, match="too large"):
        burn(world.attack, f, k, 4)


def test_parts_are_asked_for_one_by_one():
    asked = []

    def ask(part, times):
        asked.append((part.tolist(), times))
        return times <= 0.5 and 0 not in part

    assert largest_of_each(ask, np.arange(4), times=(0.9, 0.5, 0.1), parts=2) == 1
    assert asked == [([0, 1], 0.9), ([0, 1], 0.5), ([0, 1], 0.1), ([2, 3], 0.9), ([2, 3], 0.5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"times": 0.0}, "times must be above 0"),
        ({"times": ()}, "times"),
        ({"parts": 0}, "parts must be from 1 to the number of rows, 2"),
        ({"parts": 3}, "parts"),
    ],
)
def test_bad_calls(options, message):
    world = World()
    with pytest.raises(InputError, match=message):
        burn(world.attack, world.own_features[:2], world.own_labels[:2], 4, **options)
    assert world.attack.cost.messages == 0
