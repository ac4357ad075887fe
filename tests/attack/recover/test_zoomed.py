"""One record from two sharp moments and states that need not be."""

from dataclasses import replace

import numpy as np

from exhume.attack.recover import zoomed
from tests.attack.worlds import clustered, gap


def test_the_gram_follows_from_the_record_whatever_the_states():
    world = clustered()
    row = world.others[5]
    before = replace(world.state, A=2.0 * world.A)
    after = replace(world.state, A=7.0 * world.A, G=world.state.G - world.block(row).moment)
    found = zoomed(before, after)
    assert found.label == world.labels[row]
    assert gap(found.feature, world.features[row]) < 1e-9
    assert gap(found.block.gram, world.block(row).gram) < 1e-9
    assert np.array_equal(found.block.moment, before.G - after.G)
