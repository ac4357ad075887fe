"""Coordinates that are dead to the attacker, and units of features: what is identified and read in spite of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

from exhume import Client, Head, Heads, Ledger, Server, Summary, Update
from exhume.attack import recover
from exhume.attack.coordinates import Coordinates, schur
from exhume.attack.estimate import direct, symmetric
from exhume.attack.probes import Resources, build, designed, label_swap, own_data
from exhume.attack.session import Attack
from exhume.attack.state import State, alike
from exhume.errors import InputError, NotIdentifiedError
from exhume.numerics import relative
from tests.attack import exact as ex
from tests.attack.worlds import rows

D, C, DEAD, RARE = 16, 4, 3, 2
"""Three coordinates are zero in everybody's rows, two more in the attacker's only."""


class Sparse:
    """A server with dead coordinates, and a client whose own rows are zero in some more."""

    def __init__(self, seed=0, precision="float64", rare=RARE):
        features, labels = rows(seed, 120, D, C)
        order = np.random.default_rng(seed).permutation(D)
        self.dead, self.rare = order[:DEAD], order[DEAD : DEAD + rare]
        features[:, self.dead] = 0.0
        features[:80, self.rare] = 0.0  # most honest rows have nothing there either
        self.own, self.own_labels = features[:60], labels[:60]
        self.features, self.labels = features, labels
        self.server = Server(Ledger.zeros(D, C, 1e-2), release=Heads(precision))
        self.honest = Client(self.server, "alice")
        self.honest.add(features, labels)
        self.target = self.server.as_target("mallory")
        self.live = np.setdiff1d(np.arange(D), [*self.dead, *self.rare])

    @property
    def A(self):
        return self.server.ledger.summary.gram + 1e-2 * np.eye(D)

    def probe(self, name="own-data", responses=10):
        if name == "label-swap":
            return label_swap(self.own, C)
        return own_data(self.own, self.own_labels, C, responses=responses, rng=np.random.default_rng(1))

    def run(self, name="own-data", **options):
        return Attack(self.target).run(self.probe(name, **options))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["own-data", "label-swap"]), st.sampled_from([direct, symmetric]))
def test_what_is_identified_is_the_schur_complement_on_the_live_coordinates(seed, name, estimate):
    world = Sparse(seed)
    truth = schur(world.A, world.live)
    state = estimate(world.run(name))
    np.testing.assert_array_equal(state.live, world.live)
    at = np.ix_(state.live, state.live)
    assert relative(state.A[at] - truth, truth) < 1e-6
    np.testing.assert_allclose(state.A[at] @ state.H[at], np.eye(len(state.live)), atol=1e-5)
    outside = np.setdiff1d(np.arange(D), state.live)
    assert not state.baseline.weights[outside].any() and not state.G[outside].any()


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_a_schur_complement_in_rationals_loses_the_same_record(seed):
    """Deleting f that is zero in the dead coordinates takes ``f f'`` from the Schur complement, exactly."""
    rng = np.random.default_rng(seed)
    d, live = 5, np.array([0, 2, 3])
    root = rng.integers(-4, 5, (9, d)).astype(float)
    f = np.zeros(d)
    f[live] = rng.integers(-3, 4, len(live))
    A = root.T @ root + np.eye(d) + np.outer(f, f)

    def exactly(a):
        dead = np.setdiff1d(np.arange(d), live)
        blocks = [[ex.exact(a[np.ix_(i, j)]) for j in (live, dead)] for i in (live, dead)]
        return blocks[0][0] - blocks[0][1] * blocks[1][1].inv() * blocks[1][0]

    lost = exactly(A) - exactly(A - np.outer(f, f))
    assert lost == ex.exact(np.outer(f[live], f[live]))
    np.testing.assert_allclose(schur(A, live), ex.floats(exactly(A)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("precision", "allowed"), [("float64", 1e-7), ("float32", 1e-3)])
def test_every_record_that_is_zero_in_the_dead_coordinates_is_read(precision, allowed):
    world = Sparse(3, precision)
    state = symmetric(world.run())
    for row in range(60, 80):
        twin = Server(world.server.ledger.copy(), release=Heads(precision))
        twin.submit(Update.deleting(Summary.of(world.features[[row]], world.labels[[row]], C)), "alice")
        found = recover.rank_one(state, twin.head(), nonnegative=True)
        assert found.label == world.labels[row]
        assert found.known
        assert relative(found.feature - world.features[row], world.features[row]) < allowed


def test_a_difference_of_two_states_has_the_record_alone():
    world = Sparse(5)
    before = direct(world.run())
    world.honest.delete(world.features[[70]], world.labels[[70]])
    found = recover.difference(before, direct(world.run()))
    truth = np.outer(world.features[70], world.features[70])
    assert found.label == world.labels[70]
    assert relative(found.block.gram - truth, truth) < 1e-5


def test_states_of_different_probes_meet_on_what_both_know():
    world = Sparse(7)
    whole, part = direct(Attack(world.target).run(designed(D, C, scale=100.0))), direct(world.run())
    one, other = alike(whole, part)
    np.testing.assert_array_equal(one.live, world.live)
    assert relative(one.A - other.A, other.A) < 1e-6
    assert relative(one.G - other.G, other.G) < 1e-6


def test_a_run_that_speaks_of_dead_coordinates_does_not_fit_the_state():
    world = Sparse(7)
    state = direct(world.run())
    with pytest.raises(InputError, match="after must be a run of a probe to which the same coordinates are dead"):
        recover.averaged(state, Attack(world.target).run(designed(D, C, scale=100.0)))
    found = recover.averaged(state, world.run())
    assert found.label is not None


def test_followed_deletions_stay_in_the_live_coordinates():
    world = Sparse(11)
    state, heads = direct(world.run()), []
    for row in (61, 65, 70):
        world.honest.delete(world.features[[row]], world.labels[[row]])
        heads.append(world.server.head())
    steps = recover.sequence(state, heads, nonnegative=True).diagnostics.steps
    assert [s.found.label for s in steps] == list(world.labels[[61, 65, 70]])


def test_too_few_answers_are_still_too_few_and_say_what_was_left_out():
    world = Sparse(1)
    with pytest.raises(NotIdentifiedError, match=r"needed 11 .*; 5 of 16 coordinates are zero in all own rows"):
        direct(world.run(responses=2))


def test_an_unfinished_designed_probe_has_no_dead_coordinates():
    world = Sparse(1)
    run = Attack(world.target).run(designed(D, C, scale=100.0))
    with pytest.raises(NotIdentifiedError, match="needed 16"):
        direct(run.first(3))


def test_a_state_knows_heads_and_states_as_they_are_to_it():
    world = Sparse(2)
    state = State.of(world.A, Head(np.linalg.solve(world.A, world.server.ledger.summary.moment)))
    part = state.on(world.live)
    assert relative(part.A[np.ix_(world.live, world.live)] - schur(world.A, world.live), world.A) < 1e-9
    assert part.on(world.live) is part and state.on(None) is state


def breast_cancer():
    found = load_breast_cancer()
    return found.data, found.target


def tabular(scaled):
    """Identify a server of raw tabular features by designed probes, in units of the attacker's rows or without."""
    features, labels = breast_cancer()
    server = Server(Ledger.zeros(30, 2, 1e-3))
    Client(server, "alice").add(features, labels)
    own = features[:100] if scaled else features[:0]
    probe = build("designed", Resources(30, 2, own, labels[: len(own)], np.random.default_rng(0)))
    return server, Attack(server.as_target("mallory")).run(probe), features, labels


def test_raw_tabular_features_are_read_in_units_of_the_attackers_own():
    server, run, features, labels = tabular(scaled=True)
    state = direct(run)
    A = server.ledger.summary.gram + 1e-3 * np.eye(30)
    assert np.linalg.cond(A) > 1e11
    units = run.coordinates.units
    assert relative((state.A - A) / np.outer(units, units), A / np.outer(units, units)) < 1e-9
    hits = 0
    for row in range(200, 230):
        twin = Server(server.ledger.copy())
        twin.submit(Update.deleting(Summary.of(features[[row]], labels[[row]], 2)), "alice")
        found = recover.rank_one(state, twin.head())
        hits += found.label == labels[row] and relative(found.feature - features[row], features[row]) < 1e-3
    assert hits == 30


def test_without_units_the_same_probe_is_rank_deficient():
    with pytest.raises(NotIdentifiedError, match="rank deficient"):
        direct(tabular(scaled=False)[1])


def test_units_are_only_for_features_of_very_different_size():
    features = np.ones((4, 3))
    assert Coordinates.scaled_by(features) is None
    assert Coordinates.scaled_by(features[:0]) is None
    assert Coordinates.scaled_by(features * [1.0, 300.0, 1.0]) is None  # squares 9e4 apart: below 1e5
    found = Coordinates.scaled_by(features * [1.0, 330.0, 0.0])
    np.testing.assert_allclose(found.units, [1.0, 330.0, 1.0])
    assert found.whole
