"""Two states subtracted."""

import numpy as np
import pytest

from exhume.attack.recover import difference
from exhume.errors import InputError
from tests.attack.worlds import clustered


def states(rows):
    world = clustered()
    after = world.after(rows)[1]
    return world, world.attack.identify(world.probe("designed")), after.identify(world.probe("designed"))


def test_one_record_is_read_off_the_block():
    world, before, after = states(200)
    found = difference(before, after)
    sample = found.block.as_sample()
    assert found.label == sample.label == world.labels[200] and found.known is None
    assert np.array_equal(found.feature, sample.feature) and found.margin == sample.margin
    assert np.array_equal(found.block.gram, before.A - after.A)
    assert np.array_equal(found.block.moment, before.G - after.G)


@pytest.mark.parametrize("records", [2, None])
def test_of_more_there_is_no_label(records):
    _, before, after = states([200, 201])
    found = difference(before, after, records=records)
    assert (found.label, found.feature, found.margin) == (None, None, None)
    assert np.array_equal(found.block.gram, before.A - after.A)


def test_a_number_of_records_that_cannot_be_is_refused():
    _, before, after = states(200)
    with pytest.raises(InputError, match="records must be at least 1"):
        difference(before, after, records=0)
