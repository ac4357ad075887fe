"""Several records in one broadcast."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume.attack import recover
from exhume.errors import InputError, NotIdentifiedError
from tests.attack.worlds import clustered, gap


def pick(world, labels):
    pools = {k: list(world.others[world.labels[world.others] == k]) for k in range(world.c)}
    return np.array([pools[k].pop() for k in labels])


def test_several_records_of_one_class():
    world = clustered(c=6)
    rows = pick(world, [2, 2, 2])
    found = recover.low_rank(world.state, world.head_after(rows))
    more = found.diagnostics
    assert more.records == 3 and more.present == (2,)
    assert (found.label, found.feature, found.known) == (None, None, True)
    assert more.counts.tolist() == [0, 0, 3, 0, 0, 0]
    assert gap(found.block.gram, world.block(rows).gram) < 1e-5
    assert gap(found.block.moment, world.block(rows).moment) < 1e-5
    assert more.samples == () and "mixed" in more.undetermined


def test_a_record_alone_in_its_class_is_itself():
    world = clustered(c=6)
    rows = pick(world, [1, 1, 4])
    found = recover.low_rank(world.state, world.head_after(rows)).diagnostics
    assert set(found.present) == {1, 4}
    assert found.counts.tolist() == [0, 2, 0, 0, 1, 0]
    (sample,) = found.samples
    assert sample.label == 4 and gap(sample.feature, world.features[rows[2]]) < 1e-4


@pytest.mark.parametrize("labels", [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]])
def test_records_of_different_classes_are_recovered_one_by_one(labels):
    world = clustered(c=6)
    rows = pick(world, labels)
    found = recover.low_rank(world.state, world.head_after(rows)).diagnostics
    assert [s.label for s in found.samples] == labels
    for sample, row in zip(found.samples, rows, strict=True):
        assert gap(sample.feature, world.features[row]) < 1e-3


def test_the_span_is_determined_even_where_the_records_are_not():
    world = clustered(c=6)
    rows = pick(world, [0, 0, 1, 1, 2])
    with pytest.raises(NotIdentifiedError, match="too few absent classes") as error:
        recover.low_rank(world.state, world.head_after(rows))
    found = error.value.diagnostics
    F = world.features[rows].T
    assert np.linalg.norm(F - found.basis @ (found.basis.T @ F)) < 1e-5 * np.linalg.norm(F)
    assert found.counts is None and "too few absent classes" in found.undetermined


def test_one_record_is_itself():
    world = clustered(c=6)
    row = world.others[0]
    found = recover.low_rank(world.state, world.head_after(row))
    assert found.label == world.labels[row]
    assert gap(found.feature, world.features[row]) < 1e-5


def test_a_number_of_records_that_cannot_be_is_refused():
    world = clustered()
    with pytest.raises(InputError, match="records must be at least 1"):
        recover.low_rank(world.state, world.head_after(200), records=0)


@settings(max_examples=25)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(0, 1000))
def test_class_counts_follow_from_gram_and_moment(labels, seed):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(len(labels), 16))
    block = recover.Block(F.T @ F, F.T @ np.eye(4)[labels])
    counts = recover.class_counts(block, len(labels))
    np.testing.assert_allclose(counts, np.bincount(labels, minlength=4), atol=1e-6)
