"""Records of one class told apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from exhume.attack import recover
from exhume.attack.recover.unmixed import separate, unmix
from exhume.errors import InputError
from tests.attack.recover.test_low_rank import pick
from tests.attack.worlds import clustered, gap


def sparse(n, d=80, seed=0):
    """Return features of a rectifier, about half of them zero."""
    return np.maximum(np.random.default_rng(seed).standard_normal((n, d)), 0.0)


def distance(found, true):
    cost = ((true[:, None] - found[None]) ** 2).sum(axis=2)
    order = linear_sum_assignment(cost)[1]
    return float(np.mean([gap(found[j], true[i]) for i, j in enumerate(order)]))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 999), st.integers(2, 30))
def test_two_records_follow_from_gram_and_sum_whatever_their_signs(seed, d):
    F = np.random.default_rng(seed).standard_normal((2, d))
    found = separate(F.T @ F, F.sum(axis=0))
    assert distance(found.features, F) < 1e-6 and found.known


def test_three_records_are_no_pair_and_the_check_says_so():
    F = sparse(3)
    assert not separate(F.T @ F, F.sum(axis=0)).known


@pytest.mark.parametrize(("n", "most"), [(3, 0.05), (4, 0.2)])
def test_nonnegative_features_unmix_better_than_their_mean(n, most):
    F = sparse(n)
    found = unmix(F.T @ F, F.sum(axis=0), n)
    mean = np.mean([gap(F.mean(axis=0), f) for f in F])
    assert distance(found.features, F) < most < mean
    np.testing.assert_allclose(found.features.sum(axis=0), F.sum(axis=0), atol=1e-8)
    np.testing.assert_allclose(found.features.T @ found.features, F.T @ F, atol=1e-8)


def test_features_of_both_signs_are_not_told_apart_and_the_check_says_so():
    F = np.random.default_rng(0).standard_normal((4, 80))
    assert not unmix(F.T @ F, F.sum(axis=0), 4).known


def test_one_record_is_its_sum():
    f = sparse(1)[0]
    np.testing.assert_array_equal(unmix(np.outer(f, f), f, 1).features, f[None])
    with pytest.raises(InputError, match="records must be at least 1"):
        unmix(np.outer(f, f), f, 0)


def test_two_records_of_one_class_beside_one_of_another_come_out_of_one_head():
    world = clustered(c=6)
    gone = pick(world, [1, 1, 4])
    found = recover.unmixed(world.state, world.head_after(gone))
    assert found.known and found.diagnostics.undetermined == "nothing"
    labels = [s.label for s in found.diagnostics.samples]
    assert sorted(labels) == [1, 1, 4]
    features = np.array([s.feature for s in found.diagnostics.samples])
    assert distance(features, world.features[gone]) < 1e-4


def test_three_of_one_class_need_features_that_are_not_negative():
    world = clustered(c=6)
    gone = pick(world, [2, 2, 2])
    assert recover.unmixed(world.state, world.head_after(gone)).diagnostics.samples == ()
    found = recover.unmixed(world.state, world.head_after(gone), nonnegative=True)
    assert len(found.diagnostics.samples) == 3
