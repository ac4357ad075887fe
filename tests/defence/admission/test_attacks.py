"""What each rule stops, and what it is documented not to stop."""

import numpy as np
import pytest

from exhume import Ledger, Server, Summary, Update
from exhume.attack.probes import designed, label_swap, moment_update
from exhume.defence.admission import (
    AlgebraicOwnership,
    Duplicates,
    MinimumRows,
    NormLimit,
    Ownership,
    PositiveSemidefinite,
    Replay,
    SignedMessages,
    SignedTarget,
    Signer,
    sign,
)
from exhume.errors import InputError, RefusedError
from exhume.protocol import count, itemise
from exhume.protocol.message import message

D, C = 8, 3
KEYS = {"alice": b"a" * 32, "mallory": b"m" * 32}


def rows(seed, n=20, d=D, c=C):
    rng = np.random.default_rng(seed)
    return np.maximum(rng.normal(size=(n, d)) + 0.3, 0.01), rng.integers(0, c, n)


def block(seed, n=20):
    return Summary.of(*rows(seed, n), C)


def server(*rules, own=()):
    made = Server(Ledger(block(0, 60), 0.1), admission=rules)
    for seed in own:
        assert made.submit(Update.adding(block(seed)), "mallory").accepted
    return made


def reason(made, update, client="mallory"):
    return made.submit(update, client).reason


class TestOrigin:
    def test_accepts_a_tagged_message_once(self):
        made = server(SignedMessages(KEYS))
        signed = sign(Update.adding(block(1)), "alice", 1, KEYS["alice"])
        assert reason(made, signed, "alice") is None
        assert "used up" in reason(made, signed, "alice")

    @pytest.mark.parametrize(
        ("update", "client", "words"),
        [
            (lambda u: u, "alice", "no tag"),
            (lambda u: sign(u, "mallory", 1, KEYS["mallory"]), "alice", "not one that the key"),
            (lambda u: sign(u, "alice", 1, KEYS["mallory"]), "alice", "not one that the key"),
            (lambda u: sign(u, "bob", 1, b"b" * 32), "bob", "not a registered"),
        ],
    )
    def test_refuses_impersonation(self, update, client, words):
        assert words in reason(server(SignedMessages(KEYS)), update(Update.adding(block(1))), client)

    def test_refuses_changed_content_counter_and_counts(self):
        from dataclasses import replace

        signed = sign(count(Update.adding(block(1))), "alice", 3, KEYS["alice"])
        rule = SignedMessages(KEYS)
        for change in ({"add": block(2)}, {"counter": 4}, {"added_counts": (9, 9, 9)}, {"pairs": 2}):
            assert rule.refuse(replace(signed, **change), "alice") is not None
        assert rule.refuse(signed, "alice") is None

    def test_a_refused_message_does_not_use_up_its_counter(self):
        made = server(SignedMessages(KEYS), PositiveSemidefinite())
        bad = sign(Update.adding(-block(1)), "alice", 1, KEYS["alice"])
        assert "positive" in reason(made, bad, "alice")
        assert reason(made, sign(Update.adding(block(1)), "alice", 1, KEYS["alice"]), "alice") is None

    def test_a_target_can_sign(self):
        made = server(SignedMessages(KEYS))
        target = SignedTarget(made.as_target("alice"), Signer("alice", KEYS["alice"]))
        for seed in (1, 2):
            target.submit(Update.adding(block(seed)))
        assert made.counts.messages == 2
        assert target.head().d == D

    def test_short_keys_are_refused(self):
        with pytest.raises(InputError, match="16 bytes"):
            SignedMessages({"alice": b"short"})


class TestPositive:
    def test_refuses_negative_grams_and_impossible_moments(self):
        rule = PositiveSemidefinite()
        one = block(1, 1)
        assert "positive semidefinite" in rule.refuse(Update.adding(-one), "x")
        assert "no 65536 rows" in rule.refuse(Update.adding(one.with_moment(np.eye(D, C))), "x")
        assert "add" in rule.refuse(Update.adding(Summary(np.zeros((D, D)), np.eye(D, C))), "x")

    def test_refuses_a_recovered_block_with_its_error_but_not_its_projection(self):
        rule, one = PositiveSemidefinite(), block(1, 1)
        noise = np.random.default_rng(0).normal(size=(D, D)) * 1e-8
        assert rule.refuse(Update.adding(Summary(one.gram + noise + noise.T, one.moment)), "x") is not None
        assert rule.refuse(Update.adding(one), "x") is None

    def test_passes_lemma_1_and_lemma_2(self):
        assert PositiveSemidefinite().refuse(moment_update(np.ones((D, C))), "x") is None
        for step in label_swap(rows(1)[0], C).steps():
            assert PositiveSemidefinite().refuse(step.update, "x") is None


class TestDuplicates:
    def test_refuses_the_same_block_up_to_sign_and_scale(self):
        made = server(Duplicates(D, C, seed=1))
        features, labels = rows(1)
        assert reason(made, Update.adding(Summary.of(features, labels, C))) is None
        for again in (features, -features, 2.5 * features, features.astype(np.float32)):
            assert "added before" in reason(made, Update.adding(Summary.of(again, labels, C)), "alice")
        assert reason(made, Update.adding(block(2))) is None

    def test_refuses_mirrored_pairs_unless_told_not_to(self):
        for update in (moment_update(np.ones((D, C))), next(label_swap(rows(1)[0], C).steps()).update):
            assert "moment alone" in reason(server(Duplicates(D, C, seed=1)), update)
            assert reason(server(Duplicates(D, C, seed=1, mirrored=False)), update) is None

    def test_does_not_stop_rows_in_another_grouping(self):
        made = server(Duplicates(D, C, seed=1))
        features, labels = rows(1)
        for part in (slice(0, 10), slice(10, 20), slice(5, 15)):
            assert reason(made, Update.adding(Summary.of(features[part], labels[part], C))) is None

    def test_refuses_a_repeated_deletion(self):
        made = server(Duplicates(D, C, seed=1), own=(1,))
        assert reason(made, Update.deleting(block(1, 5))) is None
        assert "deleted before" in reason(made, Update.deleting(block(1, 5)))


@pytest.fixture(scope="module")
def norm():
    rng = np.random.default_rng(0)
    return NormLimit.calibrated((block(100 + i, int(n)) for i, n in enumerate(rng.integers(1, 40, 300))), rate=0.01)


class TestNorm:
    def test_refuses_loud_probes_and_passes_quiet_ones(self, norm):
        for step in designed(D, C, scale=1e4).steps():
            assert "norm" in norm.refuse(step.update, "x")
        for step in designed(D, C, scale=1.0).steps():
            assert norm.refuse(step.update, "x") is None

    def test_keeps_about_the_rate_that_it_promises(self, norm):
        fresh = [norm.refuse(Update.adding(block(5000 + i, 1 + i % 39)), "x") for i in range(400)]
        assert sum(r is not None for r in fresh) <= 20

    def test_a_client_cannot_buy_room_by_claiming_rows(self, norm):
        loud = designed(D, C, scale=1e4)
        assert norm.refuse(count(next(loud.steps()).update, [9999] * C, [9999] * C), "x") is not None

    def test_classes_without_examples_take_the_nearest_threshold(self):
        rule = NormLimit({2: 10.0, 4: 100.0})
        assert [rule.threshold(k) for k in (0, 2, 3, 4, 6)] == [10.0, 10.0, 20.0, 100.0, 400.0]
        with pytest.raises(InputError):
            NormLimit({})


class TestReplay:
    def replayed(self, change=lambda f: f, client="mallory", mix=False):
        made = server(Replay(D, C, seed=1))
        features, labels = rows(1)
        assert made.submit(Update.adding(Summary.of(features, labels, C)), "alice").accepted
        assert made.submit(Update.deleting(Summary.of(features[:1], labels[:1], C)), "alice").accepted
        back = Summary.of(change(features[:1]), labels[:1], C)
        return reason(made, Update.adding(back + block(2, 1) if mix else back), client)

    def test_refuses_another_clients_block_with_its_recovery_error(self):
        assert "another client" in self.replayed()
        assert "another client" in self.replayed(lambda f: f + 1e-3)

    def test_lets_the_owner_change_its_mind(self):
        assert self.replayed(client="alice") is None

    def test_does_not_stop_a_mixed_block_unless_rows_are_shown(self):
        assert self.replayed(mix=True) is None
        made = server(Replay(D, C, seed=1))
        features, labels = rows(1)
        assert made.submit(itemise(C, add=(features, labels)), "alice").accepted
        assert made.submit(itemise(C, delete=(features[:2], labels[:2])), "alice").accepted
        mixed = (np.vstack([features[:1], rows(2, 1)[0]]), np.array([labels[0], 0]))
        assert "another client" in reason(made, itemise(C, add=mixed))

    def test_the_nearest_honest_rows_bound_the_tolerance(self):
        features, labels = rows(1)
        direct = min(
            np.sqrt(np.linalg.norm(a.gram - b.gram) ** 2 + np.linalg.norm(a.moment - b.moment) ** 2)
            / np.hypot(np.linalg.norm(b.gram), np.linalg.norm(b.moment))
            for i in range(20)
            for j in range(20)
            if i != j
            for a, b in [[Summary.of(features[[k]], labels[[k]], C) for k in (i, j)]]
        )
        assert Replay.nearest(features, labels) == pytest.approx(direct)


class TestMinimumRows:
    def test_counts_rows(self):
        rule = MinimumRows(4)
        assert "wait" in rule.refuse(Update.deleting(block(1, 3)), "x")
        assert rule.refuse(Update.deleting(block(1, 4)), "x") is None
        assert rule.refuse(Update.adding(block(1, 1)), "x") is None
        assert MinimumRows(100).refuse(Update.deleting(block(1, 40)), "x") is None  # no more than d can be proven

    def test_does_not_stop_padding(self):
        fake = Summary.of(1e-3 * np.eye(D), np.zeros(D, dtype=int), C)
        assert MinimumRows(4).refuse(Update.deleting(block(1, 1) + fake), "x") is None


def test_attachments_compose_and_never_reach_the_ledger():
    features, labels = rows(1)
    made = count(itemise(C, add=(features, labels)), added=np.bincount(labels, minlength=C))
    signed = sign(made, "alice", 1, KEYS["alice"])
    assert signed.added is made.added and signed.added_counts == made.added_counts
    both = Server(
        Ledger.zeros(D, C, 0.1),
        admission=[SignedMessages(KEYS), Ownership(D, C, show_rows=True), AlgebraicOwnership(0.01)],
    )
    assert both.submit(signed, "alice").accepted
    plain = Server(Ledger.zeros(D, C, 0.1))
    plain.submit(Update.adding(Summary.of(features, labels, C)), "alice")
    assert both.ledger.summary == plain.ledger.summary
    assert message(signed) is signed


def test_a_target_raises_the_rules_own_words():
    with pytest.raises(RefusedError, match="moment alone"):
        server(Duplicates(D, C)).as_target("mallory").submit(moment_update(np.ones((D, C))))
