"""A server that chooses its ridge anew with every message."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume import Head, Summary, Update
from exhume.attack import recover
from exhume.attack.estimate import direct, ridges
from exhume.attack.estimate.ridges import ridge_changes
from exhume.attack.probes import designed, own_data
from exhume.attack.session import Attack
from exhume.errors import NotIdentifiedError
from exhume.numerics import relative
from tests.attack.worlds import clusters

C = 4


class Fickle:
    """A server whose ridge is drawn anew at every message, between 1e-8 and 1e4; or held."""

    def __init__(self, features, labels, seed, held=None):
        self.total, self.rng, self.held = Summary.of(features, labels, C), np.random.default_rng(seed), held
        self.chosen = []
        self._solve()

    def _solve(self):
        self.chosen.append(self.held or float(10.0 ** self.rng.uniform(-8, 4)))
        A = self.total.gram + self.chosen[-1] * np.eye(len(self.total.gram))
        self.weights = np.linalg.solve(A, self.total.moment)

    def head(self):
        return Head(self.weights)

    def submit(self, update):
        self.total = self.total + update.net
        self._solve()
        return self.head()


def fickle(seed, d=16, held=None):
    features, labels = clusters(seed, 300, d, C)
    return Fickle(features, labels, seed, held), features, labels


def run(server, features, labels, responses=10):
    probe = own_data(features[:120], labels[:120], C, responses=responses, rng=np.random.default_rng(0))
    return Attack(server).run(probe)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_every_ridge_comes_out_and_the_state_with_it(seed):
    server, features, labels = fickle(seed)
    transcript = run(server, features, labels)
    truth = np.array(server.chosen[1:11]) - server.chosen[0]
    assert np.abs(ridge_changes(transcript) - truth).max() <= 1e-6 * max(1.0, np.abs(truth).max())
    state = ridges(transcript)
    A = Summary.of(features, labels, C).gram + server.chosen[0] * np.eye(16)
    assert relative(state.A - A, A) < 1e-6
    G = Summary.of(features, labels, C).moment
    assert relative(state.G - G, G) < 1e-6


def read_all(estimate, rows=30, **options):
    """Return how many of the deleted records' labels come out of two states, and out of one and a head."""
    pairs, alone, known = 0, 0, 0
    for row in range(150, 150 + rows):
        server, features, labels = fickle(row)
        try:
            before = estimate(run(server, features, labels))
            server.submit(Update.deleting(Summary.of(features[[row]], labels[[row]], C)))
            found = recover.rank_one(before, server.head(), **options)
            alone += found.label == labels[row] and relative(found.feature - features[row], features[row]) < 1e-3
            known += bool(found.known)
            assert not found.known or found.label == labels[row]
            after = estimate(run(server, features, labels))
            block = recover.difference(before, after, **options)
            truth = np.outer(features[row], features[row])
            pairs += block.label == labels[row]
            if options:
                assert relative(block.block.gram - truth, truth) < 1e-3
        except NotIdentifiedError:
            continue
    return pairs, alone, known


def test_all_labels_come_out_where_a_held_ridge_is_assumed_in_vain():
    assert read_all(ridges, ridge=True) == (30, 30, 30)
    pairs, alone, known = read_all(direct)
    assert max(pairs, alone) < 15
    assert known <= 2


def test_a_ridge_that_is_held_costs_nothing():
    server, features, labels = fickle(1, held=0.1)
    transcript = run(server, features, labels)
    assert np.abs(ridge_changes(transcript)).max() < 1e-7
    one, other = ridges(transcript), direct(transcript)
    assert relative(one.A - other.A, other.A) < 1e-7


def test_rare_features_are_dead_to_the_rows_but_not_to_a_ridge_that_changes():
    server, features, labels = fickle(3)
    features[:120, 5] = 0.0
    server = Fickle(features, labels, 3)
    state = ridges(run(server, features, labels))
    assert state.live is None
    A = Summary.of(features, labels, C).gram + server.chosen[0] * np.eye(16)
    assert relative(state.A - A, A) < 1e-6
    held = Fickle(features, labels, 3, held=0.1)
    assert 5 not in ridges(run(held, features, labels)).live


def test_designed_probes_tell_the_ridges_by_symmetry_alone():
    server, features, labels = fickle(5)
    transcript = Attack(server).run(designed(16, C, scale=100.0))
    truth = np.array(server.chosen[1:5]) - server.chosen[0]
    assert np.abs(ridge_changes(transcript) - truth).max() <= 1e-6 * max(1.0, np.abs(truth).max())
    state = ridges(transcript)
    G = Summary.of(features, labels, C).moment
    assert relative(state.G - G, G) < 1e-6


def test_too_few_answers_are_too_few():
    server, features, labels = fickle(5)
    with pytest.raises(NotIdentifiedError, match="rank deficient"):
        ridges(run(server, features, labels, responses=3))
