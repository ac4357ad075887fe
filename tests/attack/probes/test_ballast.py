"""Ballast: a state that no plain probe identifies is read to the last digits once the attacker has changed it."""

import numpy as np
import pytest

from exhume.attack import estimate, probes, recover, strategies
from exhume.attack.probes.ballast import SHARE
from exhume.attack.session import Attack
from exhume.errors import InputError, NotIdentifiedError
from exhume.protocol import Heads, Ledger, Server, Summary, Update

D, C, N, GAMMA = 96, 5, 60, 1e-8
"""Fewer rows than features and next to no ridge: the condition number of the state is beyond 1e10."""


def rows(seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, C, N)
    # Whole numbers: the gram is exact, whoever sums it.
    return np.maximum(rng.integers(-20, 60, (N, D)) + rng.integers(0, 30, (C, D))[labels], 0).astype(float), labels


def facing(features, labels, precision="float64"):
    server = Server(Ledger(Summary.of(features, labels, C), GAMMA), release=Heads(precision))
    server.head()
    return server, Attack(server.as_target("mallory"))


@pytest.mark.parametrize(("precision", "close"), [("float64", 1e-9), ("float32", 1e-3)])
def test_it_reads_records_where_the_designed_probe_identifies_nothing(precision, close):
    features, labels = rows()
    server, attack = facing(features, labels, precision)
    with pytest.raises(NotIdentifiedError):
        attack.identify(probes.designed(D, C))
    probe = probes.ballast(D, C, weight=probes.weight_for(features[:30]))
    with strategies.ballasted(attack, probe):
        state = attack.identify(probe)
        truth = features.T @ features + (GAMMA + probe.weight) * np.eye(D)
        assert np.linalg.norm(state.A - truth) <= close * np.linalg.norm(truth)
        for row in range(30, 40):
            gone = Summary.of(features[[row]], labels[[row]], C)
            server.submit(Update.deleting(gone), "owner")
            found = recover.rank_one(state, attack.observe())
            assert found.label == labels[row]
            assert np.linalg.norm(found.feature - features[row]) <= close * np.linalg.norm(features[row])
            server.submit(Update.adding(gone), "owner")


def test_it_is_taken_back_however_the_block_ends():
    features, labels = rows()
    server, attack = facing(features, labels)
    before, probe = server.ledger.summary, probes.ballast(D, C, weight=1000.0)
    with pytest.raises(KeyError), strategies.ballasted(attack, probe):
        held = server.ledger.summary.gram
        assert np.array_equal(held, before.gram + 1000.0 * np.eye(D))
        raise KeyError
    assert np.array_equal(server.ledger.summary.gram, before.gram)  # whole numbers: no rounding on the way


def test_its_weight_is_a_share_of_the_largest_eigenvalue_of_ones_own_rows():
    features, _ = rows()
    for some in (features, features[:7], features.T[:40], features[:2]):
        top = np.linalg.eigvalsh(some.T @ some)[-1]
        assert SHARE * top * (1 - 1e-6) <= probes.weight_for(some) <= SHARE * np.square(some).sum() * (1 + 1e-12)
    assert probes.weight_for(features) == pytest.approx(SHARE * np.linalg.eigvalsh(features.T @ features)[-1])
    assert probes.weight_for(features[:1]) == pytest.approx(SHARE * np.square(features[0]).sum())
    with pytest.raises(InputError, match="not zero"):
        probes.weight_for(np.zeros((3, D)))


def test_answers_are_about_one_by_default():
    features, labels = rows()
    _, attack = facing(features, labels)
    probe = probes.ballast(D, C, weight=1e6)
    with strategies.ballasted(attack, probe):
        run = attack.run(probe)
    assert 0.5 < np.linalg.norm(run.X, 2) <= 1.0
    assert estimate.direct(run).diagnostics.kappa_X < 1e3


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_that_is_none_is_refused(weight):
    with pytest.raises(InputError, match="weight"):
        probes.ballast(D, C, weight=weight)


def test_only_ballast_has_one():
    assert probes.ballast_of(probes.designed(D, C)) is None
    assert np.array_equal(probes.ballast_of(probes.ballast(4, 2, weight=3.0)).gram, 3.0 * np.eye(4))
