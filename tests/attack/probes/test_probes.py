import math
import pickle
import sys

import numpy as np
import pytest

from exhume import Client, Ledger, Server, Summary, Update
from exhume.attack import recover
from exhume.attack.probes import (
    REGISTRY,
    MomentProbe,
    Resources,
    build,
    designed,
    label_swap,
    moment_update,
    own_data,
    random,
)
from exhume.attack.session import Attack
from exhume.errors import InputError
from tests.attack.worlds import EPS, PROBES, Tap, World, norm, rows

MOMENT = ("designed", "random", "label-swap")
VARIANTS = [(name, "cumulative") for name in PROBES] + [("designed", "restored"), ("random", "restored")]


def submissions(world, name, mode="cumulative"):
    tap = Tap(world)
    transcript = Attack(tap).run(world.probe(name, mode))
    return transcript, tap


@pytest.mark.parametrize(("name", "mode"), VARIANTS)
def test_every_submitted_gram_is_symmetric_and_positive_semidefinite(name, mode):
    _, tap = submissions(World(), name, mode)
    for update in tap.updates:
        for gram in (update.add.gram, update.delete.gram):
            assert np.array_equal(gram, gram.T)
            assert np.linalg.eigvalsh(gram)[0] >= -len(gram) * EPS * np.trace(gram)


@pytest.mark.parametrize("mode", ["cumulative", "restored"])
@pytest.mark.parametrize("name", ["designed", "random"])
def test_both_sides_of_a_moment_pair_are_the_summary_of_one_row_a_class(name, mode):
    _, tap = submissions(World(), name, mode)
    for update in tap.updates:
        for side in (update.add, update.delete):
            again = Summary.of(side.moment.T, np.arange(side.c), side.c)
            np.testing.assert_allclose(side.gram, again.gram, rtol=0, atol=side.d * EPS * np.trace(side.gram))
        assert np.array_equal(update.add.moment, -update.delete.moment)
        assert update.pairs == max(int(np.any(update.add.moment, axis=0).sum()), 1)


def test_both_sides_of_a_label_swap_are_the_same_genuine_rows():
    world = World()
    probe = world.probe("label-swap")
    for step, chosen in zip(probe.steps(), probe.rows, strict=True):
        batch = world.own_features[chosen]
        add, delete = step.update.add, step.update.delete
        assert add == Summary.of(batch, np.arange(3), 4)
        assert np.array_equal(delete.gram, add.gram)
        assert not delete.moment[:, :3].any()
        np.testing.assert_allclose(delete.moment[:, 3], batch.sum(axis=0), rtol=4 * EPS)
        assert step.update.pairs == 3
    assert probe.cancel(Summary.zeros(24, 4), probe.responses).pairs == 3 * probe.responses


def test_label_swap_rows_span_all_that_the_features_span():
    features = np.vstack([np.zeros((5, 4)), np.ones((5, 4)), np.eye(4)])
    probe = label_swap(features, 3)
    assert np.linalg.matrix_rank(features[probe.rows.ravel()]) == 4


@pytest.mark.parametrize("name", MOMENT)
def test_net_grams_of_moment_probes_are_bitwise_zero_and_the_ledgers_gram_never_moves(name):
    world = World()
    gram = world.server.ledger.summary.gram.tobytes()
    transcript, tap = submissions(world, name)
    assert transcript.moment_only
    assert all(update.net.gram.tobytes() == bytes(8 * 24 * 24) for update in tap.updates)
    assert all(ledger.gram.tobytes() == gram for ledger in tap.ledgers)


@pytest.mark.parametrize("mode", ["cumulative", "restored"])
def test_totals_come_out_as_planned(mode):
    rng = np.random.default_rng(0)
    totals = [np.round(rng.normal(size=(6, 3)) * 8) for _ in range(4)]
    probe = MomentProbe("planned", totals, mode)
    standing, heard, sent = np.zeros((6, 3)), [], 0
    for step in probe.steps():
        standing = standing + step.update.net.moment
        sent += 1
        if step.listen:
            heard.append(standing)
        else:
            assert not standing.any()
    np.testing.assert_array_equal(heard, totals)
    assert sent == (4 if mode == "cumulative" else 7)
    assert probe.responses == 4
    cancel = probe.cancel(Summary.zeros(6, 3).with_moment(standing), 2).net
    np.testing.assert_array_equal(standing + cancel.moment, 0)
    assert cancel.gram_is_zero


def test_increments_of_the_random_probe_are_independent_in_either_mode():
    walk = random(6, 3, rng=np.random.default_rng(3), responses=4, scale=2.0)
    apart = random(6, 3, rng=np.random.default_rng(3), responses=4, scale=2.0, mode="restored")
    want = 2.0 * np.random.default_rng(3).standard_normal((4, 6, 3))
    np.testing.assert_array_equal(apart.totals, want)
    np.testing.assert_allclose(walk.totals, np.cumsum(want, axis=0))
    assert random(7, 3, rng=np.random.default_rng(0)).responses == 3


def test_own_data_uses_every_row_once_in_batches_of_nearly_equal_size():
    features, labels = rows(0, 29, 5, 3)
    probe = own_data(features, labels, 3, responses=6, rng=np.random.default_rng(0))
    assert sorted(np.concatenate(probe.batches)) == list(range(29))
    assert {len(b) for b in probe.batches} == {4, 5}
    for step, batch in zip(probe.steps(), probe.batches, strict=True):
        assert step.update == Update.adding(Summary.of(features[batch], labels[batch], 3))


@pytest.mark.parametrize(("name", "mode"), VARIANTS)
def test_cancellation_restores_the_ledger(name, mode):
    world = World()
    before = world.server.ledger.summary
    transcript, tap = submissions(world, name, mode)
    after = world.server.ledger.summary
    passed = max(norm(ledger.moment) for ledger in tap.ledgers)
    assert norm(after.moment - before.moment) <= 2 * len(tap.updates) * EPS * passed
    if name in MOMENT:
        assert after.gram.tobytes() == before.gram.tobytes()
    passed = max(norm(ledger.gram) for ledger in tap.ledgers)
    assert norm(after.gram - before.gram) <= 2 * len(tap.updates) * EPS * passed
    assert transcript.final is not None
    error = np.linalg.cond(world.A) * len(tap.updates) * 24 * EPS * 100
    assert norm(transcript.final.weights - transcript.baseline.weights) <= error * norm(transcript.baseline.weights)


@pytest.mark.parametrize(("name", "mode"), VARIANTS)
def test_on_a_grid_cancellation_is_bitwise(name, mode):
    d, c = 8, 3
    features, labels = rows(0, 40, d, c)
    server = Server(Ledger.zeros(d, c, 0.5, grid=2.0**-6))
    Client(server, "alice").add(features, labels)
    before = server.ledger.summary
    own = np.round(rows(1, 30, d, c)[0] * 32) / 32
    probe = {
        "designed": lambda: designed(d, c, scale=128.0, mode=mode),
        "random": lambda: MomentProbe("random", [np.round(own[i : i + c].T * 32) / 16 for i in range(3)], mode),
        "label-swap": lambda: label_swap(own, c),
        "own-data": lambda: own_data(own, labels[:30], c, responses=4, rng=np.random.default_rng(0)),
    }[name]()
    transcript = Attack(server.as_target("mallory")).run(probe)
    assert server.ledger.summary == before
    assert transcript.final.weights.tobytes() == transcript.baseline.weights.tobytes()


@pytest.mark.parametrize("name", PROBES)
def test_each_probe_identifies_and_recovers_through_a_real_server(name):
    world = World(own=200)
    attack = Attack(world.target)
    before = attack.identify(world.probe(name))
    A = world.A
    np.testing.assert_allclose(before.A, A, atol=1e-6 * norm(A))
    start = world.server.ledger.summary
    world.delete(5)
    found = recover.difference(before, attack.identify(world.probe(name)))
    label, feature = found.label, found.feature
    assert label == world.labels[5]
    np.testing.assert_allclose(feature, world.features[5], atol=1e-5)
    attack.replay(found.block)
    again = world.server.ledger.summary
    assert norm(again.gram - start.gram) <= 1e-6 * norm(start.gram)
    assert norm(again.moment - start.moment) <= 1e-6 * norm(start.moment)


@pytest.fixture(scope="module")
def large():
    return rows(0, 700, 512, 10), rows(1, 1040, 512, 10)


def paper_server(large):
    """Return a fresh server of the paper's size whose ledger already holds everybody's rows, the attacker's too."""
    (features, labels), (own, own_labels) = large
    total = Summary.of(features, labels, 10) + Summary.of(own, own_labels, 10)
    return Server(Ledger(total, 1e-3))


def deletion(large, row):
    (features, labels), _ = large
    return Update.deleting(Summary.of(features[row : row + 1], labels[row : row + 1], 10))


def test_counts_of_a_first_and_a_later_designed_attack_are_the_papers(large):
    server = paper_server(large)
    attack = Attack(server.as_target("mallory"))
    probe = designed(512, 10)
    assert probe.responses == 52
    before = attack.identify(probe)
    assert before.diagnostics.responses == 52
    server.submit(deletion(large, 3), "alice")
    after = attack.identify(probe)
    attack.replay(recover.difference(before, after).block)
    assert server.counts.broadcasts == attack.cost.responses == 109
    assert (attack.cost.probes, attack.cost.messages) == (104, 107)
    assert (server.counts.messages, server.counts.pairs) == (108, attack.cost.pairs + 1)
    server.submit(deletion(large, 4), "alice")
    found = recover.difference(before, attack.identify(probe))
    attack.replay(found.block)
    assert server.counts.broadcasts - 109 == attack.cost.responses - 109 == 55
    assert found.label == large[0][1][4]


def test_counts_of_an_attack_with_own_data_are_the_papers(large):
    server = paper_server(large)
    attack = Attack(server.as_target("mallory"))
    probe = own_data(*large[1], 10, responses=104, rng=np.random.default_rng(0))
    before = attack.identify(probe)
    server.submit(deletion(large, 3), "alice")
    found = recover.difference(before, attack.identify(probe))
    attack.replay(found.block)
    assert server.counts.messages == 212
    assert server.counts.broadcasts == attack.cost.responses == 213
    assert (attack.cost.probes, attack.cost.messages) == (208, 211)
    assert found.label == large[0][1][3]


def test_the_label_swap_bound_is_the_papers(large):
    assert label_swap(large[1][0], 10).responses == 57 == math.ceil(512 / 9)


@pytest.mark.parametrize("mode", ["cumulative", "restored"])
def test_messages_and_pairs_are_counted_on_both_sides_alike(mode):
    world = World(d=10, c=4)
    attack = Attack(world.target)
    before = world.server.counts
    transcript = attack.run(world.probe("designed", mode))
    assert transcript.responses == attack.cost.probes == 3
    assert np.array_equal(transcript.Z, 100.0 * np.eye(10, 12))
    messages = 3 + 1 if mode == "cumulative" else 2 * 3
    assert attack.cost.messages == world.server.counts.messages - before.messages == messages
    assert attack.cost.pairs == world.server.counts.pairs - before.pairs
    # Columns 4 + 4 + 2; moving from one block to the next touches every column of either, restoring each its own.
    assert attack.cost.pairs == (4 + 4 + 4 + 2 if mode == "cumulative" else 2 * (4 + 4 + 2))
    assert attack.cost.responses == messages + 1


def resources(**options):
    features, labels = rows(1, 40, 6, 3)
    return Resources(6, 3, features, labels, np.random.default_rng(0), **options)


@pytest.mark.parametrize(("name", "responses"), [("designed", 2), ("random", 2), ("label-swap", 3), ("own-data", 4)])
def test_the_registry_builds_every_probe_by_name(name, responses):
    probe = build(name, resources())
    assert (probe.name, probe.responses) == (name, responses)
    assert repr(probe).startswith(f"{name.replace('-', '_')}(")
    assert set(REGISTRY) >= set(PROBES)


@pytest.mark.parametrize("name", ["random", "label-swap", "own-data"])
def test_the_registry_passes_on_the_number_of_responses(name):
    assert build(name, resources(responses=5)).responses == 5


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match=r"designed, label-swap, own-data, random; got 'desinged' \(did you mean"):
        build("desinged", resources())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: designed(0, 3), "d, c must be at least 1"),
        (lambda: designed(3, 3, scale=0.0), "scale must be a finite number above 0"),
        (lambda: designed(3, 3, scale=math.inf), "scale must be a finite number above 0"),
        (lambda: designed(3, 3, mode="both"), "mode must be 'cumulative' or 'restored'; got 'both'"),
        (lambda: random(3, 3, rng=np.random.default_rng(0), responses=0), "responses must be at least 1"),
        (lambda: random(3, 3, rng=np.random.default_rng(0), mode="x"), "mode must be"),
        (lambda: label_swap(np.eye(3), 1), "c must be at least 2"),
        (lambda: label_swap(np.eye(3), 3, responses=0), "responses must be at least 1"),
        (lambda: label_swap(np.empty((0, 3)), 3), "features must be at least one row"),
        (
            lambda: build("own-data", resources(responses=41)),
            "responses must be from 1 to the number of rows",
        ),
    ],
)
def test_bad_plans_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_zero_moment_is_still_one_pair():
    assert moment_update(np.zeros((3, 2))).pairs == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: random(6, 3, rng=np.random.default_rng(0), scale=0.0), "scale must be a finite number above 0"),
        (lambda: random(6, 3, rng=np.random.default_rng(0), scale=np.nan), "scale must be a finite number"),
        (lambda: random(6, 0, rng=np.random.default_rng(0)), "d, c must be at least 1"),
        (lambda: label_swap([1.0, 2.0], 3), "features must be a two-dimensional array"),
        (
            lambda: own_data(np.ones((5, 2)), np.zeros(4, int), 2, responses=2, rng=np.random.default_rng(0)),
            "labels must be one per row, 5",
        ),
        (
            lambda: own_data(
                np.ones((5, 2)), np.zeros(5, int), 2, responses=2, rng=np.random.default_rng(0), mode="thirds"
            ),
            "mode must be 'cumulative' or 'halves'",
        ),
    ],
)
def test_bad_plans_are_refused_before_anything_is_sent(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_the_designed_probe_has_a_number_of_responses_of_its_own():
    few = Resources(6, 3, np.ones((4, 6)), np.zeros(4, int), np.random.default_rng(0), responses=9)
    with pytest.raises(InputError, match="responses must be 2"):
        build("designed", few)


def test_own_rows_are_summarised_once_where_they_are_few_and_never_sent_along(monkeypatch):
    F, y = rows(0, 40, 12, 3)
    probe = own_data(F, y, 3, responses=8, rng=np.random.default_rng(0))
    first, again = ([step.update.add for step in probe.steps()] for _ in range(2))
    assert all(a is b for a, b in zip(first, again, strict=True))
    back = pickle.loads(pickle.dumps(probe))
    assert "_kept" not in vars(back)
    assert [step.update.add for step in back.steps()] == first
    monkeypatch.setattr(sys.modules[type(probe).__module__], "MOST_KEPT", 8 * 8 * 12**2 - 1)
    large = [step.update.add for step in probe.steps()]
    assert large == first and not any(a is b for a, b in zip(first, large, strict=True))
