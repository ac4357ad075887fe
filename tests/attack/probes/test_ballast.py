"""Ballast: a state that no plain probe identifies is read to the last digits once the attacker has changed it."""

import numpy as np
import pytest

from exhume.attack import estimate, probes, recover, strategies
from exhume.attack.probes.ballast import SHARE
from exhume.attack.session import Attack
from exhume.errors import (
    AttackError,
    InputError,
    NoteWarning,
    NotIdentifiedError,
    RefusedError,
    SingularStateError,
)
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


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf"), "3", None, True, [1.0]])
def test_a_weight_that_is_none_is_refused(weight):
    with pytest.raises(InputError, match="weight must be a finite number above 0"):
        probes.ballast(D, C, weight=weight)


@pytest.mark.parametrize(("d", "c"), [(64.0, 10), (64, 0), ("64", 10)])
def test_sizes_are_whole_numbers(d, c):
    with pytest.raises(InputError, match="d, c must be at least 1, and whole numbers"):
        probes.ballast(d, c, weight=1.0)


@pytest.mark.parametrize(
    ("features", "why"),
    [
        (np.full((3, D), np.nan), "finite"),
        (np.full((3, D), -np.inf), "finite"),
        (np.ones(D), "two axes"),
        (np.full((3, D), 1e200), "squared"),
        (np.full((3, D), 1e-170), "squared"),
        (np.zeros((0, D)), "not zero"),
        ([["a", "b"], ["c", "d"]], "numbers"),
        (None, "two axes"),
    ],
)
def test_what_are_no_rows_has_no_weight(features, why):
    with pytest.raises(InputError, match=f"features must be .*{why}"):
        probes.weight_for(features)


def test_rows_may_be_lists():
    assert probes.weight_for([[3, 0], [0, 0], [0, 4]]) == pytest.approx(SHARE * 25)  # of two columns the trace


class Lossy:
    """A target that loses its answer to the message of the given number, before or after it is applied."""

    def __init__(self, server, number, *, applied, error):
        self.target, self.number, self.applied, self.error = server.as_target("mallory"), number, applied, error
        self.sent = 0

    def head(self):
        return self.target.head()

    def submit(self, update):
        self.sent += 1
        if self.sent == self.number and not self.applied:
            raise self.error
        head = self.target.submit(update)
        if self.sent == self.number:
            raise self.error
        return head


@pytest.mark.parametrize("error", [TimeoutError("lost"), KeyboardInterrupt()], ids=type)
@pytest.mark.parametrize(("number", "applied", "messages"), [(1, True, 2), (1, False, 1), (2, True, 2)])
def test_it_is_taken_back_if_the_answer_to_it_is_lost_and_it_arrived(number, applied, messages, error):
    server, _ = facing(*rows())
    before = server.ledger.summary.gram
    target = Lossy(server, number, applied=applied, error=error)
    with pytest.raises(type(error)), strategies.ballasted(Attack(target), probes.ballast(D, C, weight=1000.0)):
        assert number == 2
    assert target.sent == messages
    assert np.array_equal(server.ledger.summary.gram, before)


@pytest.mark.parametrize("error", [RefusedError("no"), SingularStateError("A", "positive", "not")], ids=type)
def test_a_ballast_that_is_refused_is_not_taken_back(error):
    server, _ = facing(*rows())
    target = Lossy(server, 1, applied=False, error=error)

    class Busy(Lossy):
        def head(self):  # somebody else's messages give a new head each time
            server.submit(Update.adding(Summary.of(np.ones((1, D)), [0], C)), "owner")
            return super().head()

    target.__class__ = Busy
    with pytest.raises(type(error)), strategies.ballasted(Attack(target), probes.ballast(D, C, weight=1000.0)):
        pass
    assert target.sent == 1


def test_nothing_is_sent_where_the_head_cannot_be_read_either():
    server, _ = facing(*rows())

    class Gone(Lossy):
        def head(self):
            if self.sent:
                raise ConnectionError("gone")
            return super().head()

    target = Gone(server, 1, applied=True, error=TimeoutError("lost"))
    with pytest.raises(ConnectionError), strategies.ballasted(Attack(target), probes.ballast(D, C, weight=1000.0)):
        pass
    assert target.sent == 1


@pytest.mark.parametrize("probe", [probes.designed(D, C), None])
def test_a_probe_without_ballast_cannot_be_ballasted(probe):
    _, attack = facing(*rows())
    with pytest.raises(InputError, match="probe must be one with a ballast"), strategies.ballasted(attack, probe):
        pass
    assert attack.cost.messages == 0


def small(weight):
    """Return a server with rows of size one and a usual ridge, an attack on it, and a ballast."""
    features, labels = rows()
    server = Server(Ledger(Summary.of(features / 80, labels, C), 1e-3))
    return server, Attack(server.as_target("mallory")), probes.ballast(D, C, weight=weight)


def test_a_head_that_does_not_come_back_is_told():
    _, attack, probe = small(1e12)
    with (
        pytest.warns(NoteWarning, match="the head is off by .* its weight is too much"),
        strategies.ballasted(attack, probe),
    ):
        pass


def test_a_ballast_that_swallows_the_state_is_an_error_that_says_it_stands():
    _, attack, probe = small(1e20)
    with pytest.raises(AttackError, match="could not be taken back, and stands"), strategies.ballasted(attack, probe):
        pass


@pytest.mark.parametrize("others", [0, 1])
def test_a_head_that_others_changed_or_that_came_back_is_not_told(others, recwarn):
    server, attack, probe = small(10.0)
    with strategies.ballasted(attack, probe):
        attack.run(probe)
        for _ in range(others):
            server.submit(Update.adding(Summary.of(np.ones((1, D)), [0], C)), "owner")
    assert not [w for w in recwarn if issubclass(w.category, NoteWarning)]


def test_what_the_registry_says_of_standing_is_so():
    """Whoever decides by the entry decides as the probe itself would."""
    features, labels = rows()
    for name, entry in probes.REGISTRY.items():
        probe = probes.build(name, probes.Resources(D, C, features, labels, np.random.default_rng(0)))
        assert entry.stands == (probes.ballast_of(probe) is not None), name


def test_only_ballast_has_one():
    assert probes.ballast_of(probes.designed(D, C)) is None
    assert np.array_equal(probes.ballast_of(probes.ballast(4, 2, weight=3.0)).gram, 3.0 * np.eye(4))


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e9])
def test_an_audit_asks_with_at_least_the_weight(scale):
    """As docs/audit.md says: smaller moments would be lost beside the ballast."""
    features, labels = rows()
    probe = probes.build("ballast", probes.Resources(D, C, features, labels, np.random.default_rng(0), scale))
    assert probe.totals[0].max() == max(scale, probe.weight)
