"""A server's own arithmetic, and what `known` makes of it."""

import copy

import numpy as np
import pytest

from exhume import Summary, Update
from exhume.attack.estimate import symmetric
from exhume.attack.probes import designed
from exhume.attack.recover import rank_one
from exhume.attack.session import Attack
from exhume.attack.strategies import steadied
from exhume.errors import InputError
from tests.attack.worlds import clustered
from tests.audit.servers import Adapter, RanPAC32, relu_digits


def heavy():
    """A float32 server whose sums are those of 300 times the rows: one record is near what float32 resolves."""
    features, labels = relu_digits(d=100)
    server = RanPAC32(features, labels, ridge=1.0)
    server.gram *= np.float32(300)
    server.sums *= np.float32(300)
    server.weights = server.solved()
    return server, features, labels


def read(server, state, features, labels, rows):
    """Return which labels are right, and which the attacker stands by."""
    right, known = [], []
    for row in rows:
        twin = copy.deepcopy(server)
        twin.merge(Update.deleting(Summary.of(features[[row]], labels[[row]], 10)))
        found = rank_one(state, Adapter(twin).head(), nonnegative=True)
        right.append(found.label == labels[row])
        known.append(found.known)
    return np.array(right), np.array(known)


def test_the_records_of_a_float32_server_are_known_once_its_arithmetic_is():
    server, features, labels = heavy()
    attack = Attack(Adapter(server))
    state = symmetric(attack.run(designed(100, 10, scale=1e3)))
    right, known = read(server, state, features, labels, range(30))
    assert right.all() and known.sum() < 10
    sharper = steadied(attack, state, features[1400:], labels[1400:])
    right, known = read(server, sharper, features, labels, range(30))
    assert right.all() and known.sum() >= 25


def test_two_records_are_still_not_taken_for_one():
    server, features, labels = heavy()
    attack = Attack(Adapter(server))
    state = steadied(attack, symmetric(attack.run(designed(100, 10, scale=1e3))), features[1400:], labels[1400:])
    known = 0
    for row in range(0, 30, 2):
        twin = copy.deepcopy(server)
        both = features[row : row + 2] * [[5.0]]
        twin.merge(Update.deleting(Summary.of(both, labels[row : row + 2], 10)))
        known += rank_one(state, Adapter(twin).head(), nonnegative=True).known
    assert known <= 2


def test_an_exact_server_has_no_arithmetic_to_speak_of():
    world = clustered()
    state = steadied(world.attack, world.state, world.own_features, world.own_labels)
    size = np.linalg.norm(np.linalg.cholesky(world.A).T @ state.baseline.weights)
    assert state.noise < 1e-9 * size
    with pytest.raises(InputError, match="rounds must be from 1 to"):
        steadied(world.attack, world.state, world.own_features, world.own_labels, rounds=0)
