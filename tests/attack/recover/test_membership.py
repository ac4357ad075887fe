"""Who was in a deletion."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume.attack.block import Block
from exhume.attack.recover.membership import membership, ranking
from exhume.errors import InputError
from tests.attack.worlds import rows


def deletion(n, d=40, error=0.0, seed=0):
    features, labels = rows(seed, 200, d, 4)
    gone = features[:n]
    noise = np.random.default_rng(seed).standard_normal((d, d))
    gram = gone.T @ gone
    noise = (noise + noise.T) * error * np.linalg.norm(gram) / np.linalg.norm(noise + noise.T)
    return Block(gram + noise, gone.T @ np.eye(4)[labels[:n]]), features


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 39), st.integers(0, 99))
def test_members_lie_in_the_range_of_an_exact_gram_and_nobody_else_does(n, seed):
    block, features = deletion(n, seed=seed)
    found = membership(block, features)
    assert found.rank == n
    assert found.outside[:n].max() < 1e-6 < found.outside[n:].min()
    assert ranking(found.outside[:n], found.outside[n:]) == 1.0


@pytest.mark.parametrize(("error", "least"), [(1e-9, 1.0), (1e-4, 0.99), (1.0, 0.0)])
def test_the_larger_the_error_the_less_is_told(error, least):
    block, features = deletion(20, error=error)
    found = membership(block, features)
    auc = ranking(found.outside[:20], found.outside[20:])
    assert auc >= least
    if error == 1.0:
        assert auc < 0.95


def test_as_many_records_as_dimensions_tell_nothing():
    block, features = deletion(120)
    found = membership(block, features)
    assert found.rank == 40 and found.outside.max() < 1e-9


def test_the_error_can_be_given():
    block, features = deletion(5)
    assert membership(block, features, error=1e-3).error == 1e-3


def test_the_ranking_is_the_area_under_the_curve():
    assert ranking(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1.0
    assert ranking(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == 0.0
    assert ranking(np.array([1.0]), np.array([1.0])) == 0.5
    assert ranking(np.array([1.0, 3.0]), np.array([2.0, 4.0])) == 0.75
    with pytest.raises(InputError, match="at least one each"):
        ranking(np.array([]), np.array([1.0]))


def test_candidates_of_another_size_are_refused():
    with pytest.raises(InputError, match="candidates must be rows of 40 features"):
        membership(deletion(3)[0], np.ones((2, 41)))
