"""One record from the state before and one head after."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume import Head
from exhume.attack.estimate import symmetric
from exhume.attack.recover import rank_one
from exhume.errors import InputError
from tests.attack.worlds import clustered, gap


@settings(max_examples=30)
@given(st.integers(150, 599), st.integers(0, 50))
def test_from_an_exact_state_it_is_exact(row, seed):
    world = clustered(seed=seed)
    found = rank_one(world.state, world.head_after(row))
    assert found.label == world.labels[row]
    assert gap(found.feature, world.features[row]) < 1e-6
    assert found.diagnostics.second < 1e-6 and found.diagnostics.residual < 1e-6
    assert found.known
    block = found.block
    truth = world.block(row)
    assert gap(block.gram, truth.gram) < 1e-5 and gap(block.moment, truth.moment) < 1e-5


def test_the_label_is_not_simply_the_largest_entry_of_the_right_vector():
    world = clustered(seed=3)
    wrong = 0
    for row in world.others[:100]:
        after = world.head_after(row)
        right = np.linalg.svd(world.A @ (world.state.baseline.weights - after.weights))[2][0]
        wrong += int(np.abs(right).argmax() != world.labels[row])
    assert wrong > 0


@pytest.mark.parametrize("heads", ["float32", "20bits"])
def test_from_rounded_heads_of_attacker_data(heads):
    world = clustered(precision=heads)
    state = symmetric(world.attack.run(world.probe("own-data", responses=24)))
    rows = world.others[:60]
    found = [rank_one(state, world.head_after(r), nonnegative=True) for r in rows]
    right = np.array([f.label == world.labels[r] for f, r in zip(found, rows, strict=True)])
    assert right.mean() >= 0.99
    assert all(ok for f, ok in zip(found, right, strict=True) if f.known)


def test_it_says_when_it_does_not_know():
    world = clustered(precision="8bits")
    rows = world.others[:60]
    found = [rank_one(world.state, world.head_after(r)) for r in rows]
    wrong = [f for f, r in zip(found, rows, strict=True) if f.label != world.labels[r]]
    assert len(wrong) > 10
    assert sum(f.known for f in wrong) <= 0.1 * len(wrong)


def test_known_signs_rule_out_records_on_the_other_side():
    world = clustered(precision="8bits")
    heads = [world.head_after(r) for r in world.others[:60]]

    def negative(**options):
        return sum(rank_one(world.state, head, **options).feature.sum() < 0 for head in heads)

    # Where no length is positive, one that is not stays the best guess.
    assert negative(nonnegative=True) < negative()


def test_two_deleted_records_are_not_taken_for_one():
    world = clustered()
    a, b = (
        world.others[np.flatnonzero(world.labels[world.others] == 0)[0]],
        world.others[np.flatnonzero(world.labels[world.others] == 1)[0]],
    )
    assert rank_one(world.state, world.head_after([a, b])).diagnostics.second > 1e-3


def test_sizes_must_match():
    world = clustered()
    with pytest.raises(InputError, match="after must be of d = 24, c = 4"):
        rank_one(world.state, Head(np.zeros((24, 5))))
