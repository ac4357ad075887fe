from dataclasses import replace

import numpy as np
import pytest

from exhume import AdmissionRule, Client, Heads, Ledger, ReleaseRule, Server, Summary, Target, Update
from exhume.errors import InputError, NotHeldError, RefusedError
from exhume.protocol import Counts

C = 3


def batch(seed, n=10, d=5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.integers(0, C, n)


def server(**options):
    return Server(Ledger.zeros(5, C, 0.5), **options)


def test_a_round_and_one_at_a_time_give_the_same_head_and_count_differently():
    updates = [(f"client{k}", Update.adding(Summary.of(*batch(k), C))) for k in range(4)]
    together, apart = server(), server()
    receipts = together.submit_round(updates)
    for client, update in updates:
        apart.submit(update, client)
    np.testing.assert_allclose(together.head().weights, apart.head().weights, rtol=1e-12)
    assert (together.counts.submissions, together.counts.messages, together.counts.broadcasts) == (1, 4, 1)
    assert (apart.counts.submissions, apart.counts.messages, apart.counts.broadcasts) == (4, 4, 4)
    assert all(r.accepted and r.head == together.head() for r in receipts)


def test_pairs_are_counted():
    s = server()
    summary = Summary.of(*batch(0), C)
    s.submit(Update(summary, summary, pairs=7), "a")
    assert s.counts.pairs == 7


def test_first_look_is_the_baseline_broadcast_and_later_looks_are_free():
    s = server()
    assert not s.head().weights.any()
    s.head()
    assert s.counts.broadcasts == 1
    assert s.head().serial == 1


@pytest.mark.parametrize("precision", ["float64", "float32", "float16", "bfloat16", "20bits"])
def test_heads_round_only_what_is_released(precision):
    s = server(release=Heads(precision))
    receipt = s.submit(Update.adding(Summary.of(*batch(0), C)), "a")
    exact = s.ledger.head()
    released = receipt.head.weights
    bound = {"float64": 0, "float32": 2**-24, "float16": 2**-11, "bfloat16": 2**-8, "20bits": 2**-20}[precision]
    assert np.all(np.abs(released - exact) <= bound * np.abs(exact))
    assert (released == exact).all() == (precision == "float64")
    assert receipt.head.precision == precision


class NoBigMessages(AdmissionRule):
    def __init__(self):
        self.seen = []

    def refuse(self, update, client):
        return f"{client} sends too much" if update.magnitude > 1e3 else None

    def record(self, update, client):
        self.seen.append(client)


def test_admission_refuses_with_a_reason_and_changes_nothing():
    rule = NoBigMessages()
    s = server(admission=[rule])
    s.submit(Update.adding(Summary.of(*batch(0), C)), "a")
    before = s.ledger.summary, s.head(), s.counts
    features, labels = batch(1)
    big = Update.adding(Summary.of(1e3 * features, labels, C))
    receipt = s.submit(big, "b")
    assert (receipt.accepted, receipt.reason, receipt.head) == (False, "b sends too much", None)
    assert (s.ledger.summary, s.head()) == before[:2]
    assert s.counts.refused == 1 and s.counts.messages == before[2].messages
    assert rule.seen == ["a"]
    with pytest.raises(RefusedError, match="b sends too much"):
        s.as_target("b").submit(big)


def test_a_round_leaves_out_the_refused():
    s = server(admission=[NoBigMessages()])
    features, labels = batch(1)
    fine, big = Update.adding(Summary.of(*batch(0), C)), Update.adding(Summary.of(1e3 * features, labels, C))
    receipts = s.submit_round([("a", fine), ("b", big)])
    assert [r.accepted for r in receipts] == [True, False]
    assert s.ledger.summary == fine.net


class EverySecond(ReleaseRule):
    def release(self, head, occasion):
        return head if occasion.counts.submissions % 2 == 0 else None


def test_a_withheld_release_shows_the_old_head():
    s = server(release=EverySecond())
    target = s.as_target("a")
    assert isinstance(target, Target)
    first = target.head()
    again = target.submit(Update.adding(Summary.of(*batch(0), C)))
    assert again == first
    fresh = target.submit(Update.adding(Summary.of(*batch(1), C)))
    assert fresh.serial == first.serial + 1
    assert s.counts.broadcasts == 2


def test_bad_rounds_are_errors_before_anything_moves():
    s = server()
    with pytest.raises(InputError, match="messages must be at least one"):
        s.submit_round([])
    twice = Update.adding(Summary.of(*batch(0), C))
    with pytest.raises(InputError, match="at most one per client in a round; got 2 of 1 clients"):
        s.submit_round([("a", twice), ("a", twice)])
    assert s.counts == Counts()


@pytest.mark.parametrize("name", ["", 5, None, b"a", "two\nlines", "\x1b[31m", "x" * 257])
def test_a_client_has_a_name_of_one_printable_line(name):
    s = server()
    submit = lambda: s.submit(Update.adding(Summary.zeros(5, C)), name)  # noqa: E731
    for call in (submit, lambda: s.as_target(name), lambda: Client(s, name)):
        with pytest.raises(InputError, match="client must be a printable string of 1 to 256 characters") as caught:
            call()
        assert str(caught.value).isprintable()
    assert s.counts == Counts()
    s.submit(Update.adding(Summary.zeros(5, C)), "Ünicode, with spaces")


def impossible():
    """Return updates that no ledger of this size can take, by what is wrong with them."""
    huge = np.zeros((5, C))
    huge[1, 1] = 1.7e308
    return {
        "singular": Update.deleting(Summary.of(100 * np.eye(5), [0] * 5, C)),
        "size": Update.adding(Summary.zeros(4, C)),
        "classes": Update.adding(Summary.zeros(5, 1)),
        "overflow": Update.adding(Summary(np.zeros((5, 5)), huge)),
    }


@pytest.mark.parametrize("name", impossible())
def test_an_impossible_message_is_a_receipt_and_changes_nothing(name):
    s = server()
    s.submit(Update.adding(Summary.of(*batch(0), C)), "a")
    before = s.ledger.summary, s.head()
    receipt = s.submit(impossible()[name], "b")
    assert (receipt.accepted, receipt.rule, receipt.head) == (False, "ledger", None)
    assert receipt.reason.startswith("ledger: update must be ")
    assert (s.ledger.summary, s.head()) == before
    assert s.counts == Counts(submissions=1, messages=1, pairs=1, broadcasts=1, refused=1)
    with pytest.raises(RefusedError, match="ledger") as caught:
        s.as_target("b").submit(impossible()[name])
    assert caught.value.rule == "ledger"


@pytest.mark.parametrize("name", impossible())
@pytest.mark.parametrize("place", [0, 1, 3])
def test_the_others_of_its_round_are_served(name, place):
    fine = [(f"client{k}", Update.adding(Summary.of(*batch(k), C))) for k in range(3)]
    s, want = server(), server()
    want.submit_round(fine)
    messages = [*fine[:place], ("mallory", impossible()[name]), *fine[place:]]
    receipts = s.submit_round(messages)
    assert [r.accepted for r in receipts] == [client != "mallory" for client, _ in messages]
    np.testing.assert_allclose(s.head().weights, want.head().weights, rtol=1e-10, atol=1e-13)
    assert s.counts == Counts(submissions=1, messages=3, pairs=3, broadcasts=1, refused=1)


def test_a_refusal_by_the_ledger_tells_nothing_of_the_totals():
    reasons = set()
    for scale in (1e-3, 1.0, 5.0):
        features, labels = batch(0)
        s = Server(Ledger(Summary.of(scale * features, labels, C), 0.5))
        reasons.add(s.submit(impossible()["singular"], "b").reason)
    grid = Server(Ledger(Summary(np.eye(5) * 2.0**50, np.zeros((5, C))), 0.5, grid=1.0))
    full = grid.submit(Update.adding(Summary(np.eye(5) * (2.0**53 - 1), np.zeros((5, C)))), "b").reason
    assert len(reasons) == 1
    assert str(2**53 + 2**50 - 1) not in full and "below 2**53" in full


def test_a_head_that_overflows_in_the_solve_is_refused():
    """Within the limits of the totals, and yet without a finite head: the factor is garbage and the solve overflows."""

    class Overflowing(Ledger):
        def head(self):
            return super().head() * (np.inf if self.summary.moment[0, 0] > 1e6 else 1.0)

    s = Server(Overflowing(Summary.of(*batch(0), C), 0.5))
    before = s.ledger.summary, s.head(), s.counts
    moment = np.zeros((5, C))
    moment[0, 0] = 1e7
    receipts = s.submit_round([("a", Update.adding(Summary(np.zeros((5, 5)), moment)))])
    assert (receipts[0].rule, receipts[0].reason) == (
        "ledger",
        "ledger: update must be such that the head stays finite",
    )
    assert (s.ledger.summary, s.head()) == before[:2]
    assert s.counts == replace(before[2], refused=1)


class TestClient:
    def test_remembers_what_it_holds_and_deletes_exactly(self):
        s = server()
        alice = Client(s, "alice")
        X, y = batch(0)
        alice.add(X, y)
        alice.delete(X[2:5], y[2:5])
        kept, labels = alice.retained
        np.testing.assert_array_equal(kept, np.delete(X, [2, 3, 4], axis=0))
        np.testing.assert_array_equal(labels, np.delete(y, [2, 3, 4]))
        want = Ledger(Summary.of(kept, labels, C), 0.5).head()
        np.testing.assert_allclose(s.ledger.head(), want, rtol=1e-10, atol=1e-12)

    def test_does_not_delete_what_it_does_not_hold(self):
        s = server()
        alice = Client(s, "alice")
        X, y = batch(0)
        alice.add(X, y)
        before = s.ledger.summary, s.counts
        with pytest.raises(NotHeldError, match="row 1, which it does not hold"):
            alice.delete(np.vstack([X[0], X[0]]), [y[0], y[0]])
        with pytest.raises(NotHeldError):
            alice.delete(X[:1], [(y[0] + 1) % C])
        assert (s.ledger.summary, s.counts) == before
        assert len(alice) == 10

    def test_duplicates_are_held_as_often_as_added(self):
        s = server()
        alice = Client(s, "alice")
        X, y = batch(0, n=1)
        alice.add(X, y)
        alice.add(X, y)
        alice.delete(X, y)
        assert len(alice) == 1
        alice.delete(X, y)
        with pytest.raises(NotHeldError):
            alice.delete(X, y)

    def test_exchange_sends_both_sides_in_one_message(self):
        s = server()
        alice = Client(s, "alice")
        (X, y), (V, w) = batch(0), batch(1)
        alice.add(X, y)
        alice.exchange(add=(V, w), delete=(X, y))
        assert s.counts.messages == 2
        np.testing.assert_array_equal(alice.retained[0], V)
        with pytest.raises(InputError, match="neither"):
            alice.exchange()

    def test_a_refused_message_is_not_remembered(self):
        s = server(admission=[NoBigMessages()])
        alice = Client(s, "alice")
        X, y = batch(0)
        assert not alice.add(1e3 * X, y).accepted
        assert len(alice) == 0

    def test_snaps_to_the_servers_grid(self):
        s = Server(Ledger.zeros(5, C, 0.5, grid=2.0**-8))
        alice = Client(s, "alice")
        X, y = batch(0)
        alice.add(X, y)
        alice.delete(X, y)
        assert s.ledger.summary.is_zero


def test_a_row_is_the_same_with_either_zero():
    made = server()
    client = Client(made, "alice")
    client.add([[0.0, 1.0, 0.0, 2.0, 3.0]], [1])
    assert client.delete([[-0.0, 1.0, 0.0, 2.0, 3.0]], [1]).accepted
    assert len(client) == 0
