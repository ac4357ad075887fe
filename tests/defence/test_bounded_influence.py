"""Bounds on rows, messages and clients: what they refuse, what honest clients may send, and what they prove."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import exhume as ex
from exhume import Client, Ledger, Server, Summary, Update
from exhume.defence import Bounds, Entry, build, hardened_config
from exhume.defence import hardened as with_defences
from exhume.defence.admission import BoundedInfluence, Ownership, WholeMessages
from exhume.errors import InputError
from exhume.protocol import count, itemise

hardened = partial(with_defences, grows=True)
"""From an empty ledger: its bounds hold whatever shapes the noise."""

D, C, GAMMA = 8, 3, 1e-3
BOUNDS = Bounds(longest=2.0, message_rows=5, client_rows=12)


def rows(n, length=1.0, seed=0):
    rng = np.random.default_rng(seed)
    made = rng.normal(size=(n, D))
    return length * made / np.linalg.norm(made, axis=1, keepdims=True), rng.integers(0, C, n)


def refused(update, rule=None, client="mallory"):
    rule = rule or BoundedInfluence(**BOUNDS.options())
    return rule.refuse(update, client)


def test_bounds_are_measured_on_the_operators_own_rows():
    features, _ = rows(40, 3.0)
    found = Bounds.measure(features, client_rows=100, margin=1.5)
    assert found.longest == pytest.approx(4.5)
    assert (found.message_rows, found.client_rows) == (100, 100)
    assert Bounds.measure(features, client_rows=100, message_rows=7).message_rows == 7
    for wrong in ({"client_rows": 0}, {"client_rows": 3, "margin": 0.9}, {"client_rows": 3, "message_rows": 0}):
        with pytest.raises(InputError):
            Bounds.measure(features, **wrong)
    with pytest.raises(InputError, match="at least one row"):
        Bounds.measure(np.empty((0, D)), client_rows=1)
    with pytest.raises(InputError, match="longest"):
        Bounds(np.inf, 1, 1)


def test_without_bounds_no_hardened_server_starts_and_the_error_says_how_to_get_them():
    with pytest.raises(InputError, match=r"Bounds\.measure\(features, client_rows="):
        ex.hardened(Ledger.zeros(D, C, GAMMA))
    with pytest.raises(InputError, match=r"Bounds\.measure"):
        build(hardened_config(D), Ledger.zeros(D, C, GAMMA))


@pytest.mark.parametrize("side", ["adding", "deleting"])
def test_a_message_of_sums_is_bounded_by_its_trace_and_its_moment(side):
    send = getattr(Update, side)
    assert refused(send(Summary.of(*rows(5, 2.0), C))) is None
    assert "trace" in refused(send(Summary.of(*rows(5, 2.01), C)))
    assert "trace" in refused(send(Summary.of(*rows(1, 1e10), C)))
    assert "trace" in refused(send(Summary.of(*rows(1, 1e150), C)))
    moment = Summary.of(*rows(1), C)
    assert refused(send(moment.with_moment(2.2 * moment.moment))) is None  # five rows could be as long together
    assert "moment" in refused(send(moment.with_moment(2.3 * moment.moment)))
    assert "moment" in refused(send(Summary.zeros(D, C).with_moment(np.full((D, C), 1e-9))))


def test_a_message_of_declared_or_shown_rows_is_bounded_by_them():
    one = Summary.of(*rows(1, 2.0), C)
    assert refused(count(Update.adding(one), added=[1, 0, 0])) is None
    assert "trace" in refused(count(Update.adding(one + one), added=[1, 0, 0]))
    assert "declared" in refused(count(Update.adding(one), added=[6, 0, 0]))
    assert refused(itemise(C, add=rows(5, 2.0))) is None
    assert "6 rows" in refused(itemise(C, add=rows(6)))
    mixed = rows(5)
    mixed[0][3] *= 2.1
    assert "length" in refused(itemise(C, add=mixed))


def test_a_client_has_so_many_rows_and_no_more_and_others_do_not_count():
    rule = BoundedInfluence(**BOUNDS.options())
    server = Server(Ledger.zeros(D, C, GAMMA), admission=[rule])
    assert [server.submit(itemise(C, add=rows(5, seed=i)), "a").accepted for i in range(3)] == [True, True, False]
    assert server.submit(itemise(C, add=rows(5, seed=9)), "b").accepted
    assert server.submit(itemise(C, delete=rows(5, seed=0)), "a").accepted
    assert server.submit(itemise(C, add=rows(5, seed=3)), "a").accepted
    assert rule.rows("a") == 10
    full = [Update.adding(Summary.of(*rows(4, 2.0, seed=i), C)) for i in range(4)]
    assert [server.submit(update, "sums").accepted for update in full] == [True, True, True, False]


def test_the_rows_of_clients_outlive_the_process_and_a_failed_step_leaves_them():
    rule, again = (BoundedInfluence(**BOUNDS.options()) for _ in range(2))
    rule.record(itemise(C, add=rows(4)), "a")
    undo = rule.checkpoint(("a", "b"))
    rule.record(itemise(C, add=rows(3)), "a")
    rule.record(itemise(C, add=rows(3)), "b")
    undo()
    assert (rule.rows("a"), rule.rows("b")) == (4, 0)
    again.load(rule.save())
    assert again.rows("a") == 4
    with pytest.raises(InputError, match="longest"):
        BoundedInfluence(3.0, 5, 12).load(rule.save())


def test_whole_messages_are_taken_back_bit_for_bit_and_once():
    server = Server(Ledger.zeros(D, C, GAMMA), admission=[WholeMessages()])
    first, second = (Summary.of(*rows(3, seed=i), C) for i in range(2))
    assert server.submit(Update.adding(first), "a").accepted
    assert not server.submit(Update.deleting(first), "b").accepted
    assert not server.submit(Update.deleting(Summary(first.gram * (1 + 1e-15), first.moment)), "a").accepted
    assert not server.submit(Update.deleting(second), "a").accepted
    assert server.submit(Update(second, first), "a").accepted  # the batch out, another in, in one message
    assert not server.submit(Update.deleting(first), "a").accepted
    again = WholeMessages()
    again.load(server.admission[0].save())
    assert again.refuse(Update.deleting(second), "a") is None
    assert again.refuse(Update.deleting(first), "a") is not None
    assert server.submit(Update.deleting(second), "a").accepted
    assert server.admission[0]._standing.remembered() == {}  # nothing is kept of what is gone


def test_sums_that_are_off_by_the_tolerance_move_nothing_where_rows_are_shown():
    server = Server(Ledger.zeros(D, C, GAMMA), admission=[Ownership(D, C, show_rows=True)])
    features, labels = rows(2)
    exact = Summary.of(features, labels, C)
    for sign in (1.0, -1.0) * 50:
        off = Summary(exact.gram * (1 - sign * 5e-7), exact.moment)
        side = {"add": (features, labels)} if sign > 0 else {"delete": (features, labels)}
        sent = itemise(C, **side)
        told = replace(sent, **{"add" if sign > 0 else "delete": off})
        assert server.submit(told, "mallory").accepted
    assert np.abs(server.ledger.summary.gram).max() <= 100 * 2.0**-52


MODES = {"rows": {}, "messages": {"show_rows": False}, "totals": {"show_rows": False, "keep_totals": True}}


def crowd(n=400, d=D, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, C, n)
    centres = rng.normal(size=(C, d))
    return np.maximum(rng.normal(size=(n, d)) + 1.5 * centres[y], 0.0) + 1e-3, y


@pytest.mark.parametrize("mode", MODES)
def test_giants_that_come_and_go_are_not_absorbed(mode):
    """Attack 1 of the review: rows of size 1e10, added and deleted, once swallowed everybody's gram."""
    F, y = crowd()
    bounds = Bounds.measure(F, client_rows=200)
    server = hardened(Ledger.zeros(D, C, GAMMA), bounds=bounds, rows=400, key="42" * 16, **MODES[mode])
    honest = Client(server, "alice", show_rows=mode == "rows")
    for start in range(0, 100, 20):
        assert honest.add(F[start : start + 20], y[start : start + 20]).accepted
    before = server.ledger.summary
    for size in (1.0, 1e2, 1e5, 1e10, 1e100):
        giant = (size * F[200:220], y[200:220])
        mallory = Client(server, "mallory", show_rows=mode == "rows")
        if mallory.add(*giant).accepted:
            assert mallory.delete(*giant).accepted
    np.testing.assert_allclose(server.ledger.summary.gram, before.gram, rtol=1e-13)
    assert honest.delete(F[:20], y[:20]).accepted
    assert honest.add(F[300:320], y[300:320]).accepted


@pytest.mark.parametrize("mode", MODES)
def test_the_hardened_server_keeps_no_matrix_per_client_unless_asked(mode):
    F, y = crowd(40, 16)
    bounds = Bounds.measure(F, client_rows=50)
    sizes = []
    for clients in (1, 9):
        server = hardened(Ledger.zeros(16, C, GAMMA), bounds=bounds, rows=40, admission=True, **MODES[mode])
        for k in range(clients):
            Client(server, f"client {k}", show_rows=mode == "rows").add(F[k : k + 1], y[k : k + 1])
        sizes.append(sum(len(rule.save()) for rule in server.admission if hasattr(rule, "save")))
    assert ((sizes[1] - sizes[0]) / 8 > 16 * 16 * 8) is (mode == "totals")


def test_old_and_new_entries_are_readable_by_name():
    entry = Entry.of("bounded-influence", **BOUNDS.options())
    assert entry.options == {"longest": 2.0, "message_rows": 5, "client_rows": 12}


class TestOnAGrid:
    """A full grid is refused by the ledger, which would be an answer about everybody's totals: nobody can get there."""

    GRID = 2.0**-24
    """Holds totals below 2^53 / 2^48 = 32; half of that has room for three clients of two rows of length 1.5."""
    BOUNDS = Bounds(longest=1.5, message_rows=2, client_rows=2)

    def server(self, start=0.0, **options):
        ledger = Ledger(Summary(start * np.eye(D), np.zeros((D, C))), GAMMA, grid=self.GRID)
        return hardened(ledger, bounds=self.BOUNDS, rows=100, **options)

    @staticmethod
    def full():
        return np.eye(D)[[0, 0]] * 1.5, np.zeros(2, dtype=int)

    def test_clients_at_their_bounds_never_meet_the_ledgers_refusal(self):
        server = self.server(start=15.5)
        receipts = [server.submit(itemise(C, add=self.full()), f"client {i}") for i in range(5)]
        assert [r.accepted for r in receipts] == [True, True, True, False, False]
        assert all(r.rule == "bounded-influence" for r in receipts[3:])
        assert server.submit(itemise(C, delete=self.full()), "client 0").accepted
        assert server.submit(itemise(C, add=self.full()), "client 0").accepted  # who has a place keeps it

    def test_the_places_are_the_half_of_the_room_that_is_not_the_starts(self):
        rule = BoundedInfluence(**self.BOUNDS.options(), grid=self.GRID)
        assert rule.clients == 3  # 16 / (2 * 2.25), rounded down
        assert BoundedInfluence(**self.BOUNDS.options(), clients=2, grid=self.GRID).clients == 2
        assert BoundedInfluence(**self.BOUNDS.options()).clients is None

    def test_what_has_no_room_does_not_start(self):
        with pytest.raises(InputError, match="at most 3 with grid"):
            BoundedInfluence(**self.BOUNDS.options(), clients=4, grid=self.GRID)
        with pytest.raises(InputError, match="grid must be coarse enough"):
            hardened(Ledger.zeros(D, C, GAMMA, grid=2.0**-26), bounds=self.BOUNDS, rows=100)
        with pytest.raises(InputError, match="at the start"):
            self.server(start=16.0)
        with pytest.raises(InputError, match="clients must be at least 1"):
            BoundedInfluence(**self.BOUNDS.options(), clients=0)

    def test_a_limit_is_kept_over_a_restart_and_without_a_grid(self):
        rule = BoundedInfluence(**BOUNDS.options(), clients=1)
        update = itemise(C, add=rows(1))
        rule.record(update, "alice")
        again = BoundedInfluence(**BOUNDS.options(), clients=1)
        again.load(rule.save())
        assert again.refuse(update, "alice") is None
        assert "1 clients already" in again.refuse(update, "bob")


@pytest.mark.parametrize("mode", [{}, {"show_rows": False}, {"show_rows": False, "keep_totals": True}])
def test_a_message_without_rows_or_sums_takes_no_seat_and_no_event(mode):
    """64,000 of them once took 4 to 9 points from everybody, and names that sent one took every seat of a grid."""
    zero = Summary.zeros(D, C)
    server = hardened(Ledger.zeros(D, C, GAMMA, grid=2.0**-20), bounds=BOUNDS, rows=50, **mode)
    seats = server.admission[0].clients
    nothing = [Update(zero, zero), count(Update(zero, zero), added=[1, 0, 0])]
    for i in range(seats + 3):
        receipt = server.submit(nothing[i % 2], f"name {i}")
        assert not receipt.accepted and receipt.reason == "bounded-influence: a message without rows or sums"
    assert server.counts.submissions == 0
    features, labels = np.ones((1, D)) / 4, [0]
    fine = itemise(C, add=(features, labels))
    assert server.submit(fine if not mode else Update(fine.add, fine.delete), "newcomer").accepted


def test_rows_whose_sums_are_nothing_count_all_the_same():
    server = hardened(Ledger.zeros(D, C, GAMMA), bounds=BOUNDS, rows=50)
    tiny = 2.0**-700 * np.arange(1, 1 + 2 * D).reshape(2, D)
    update = itemise(C, add=(np.vstack([tiny, -tiny]), [0] * 4))
    assert update.add.is_zero
    assert [server.submit(update, "m").accepted for _ in range(5)] == [True] * 3 + [False] * 2
    assert server.admission[0].rows("m") == 12


class TestNobodyGetsCreditForWhatNeverCame:
    """An attacker who had only the docs found each of these; the account of a client must be what it has standing."""

    def test_rows_of_zeros_that_one_never_had_are_refused(self):
        server = hardened(Ledger.zeros(D, C, GAMMA), bounds=BOUNDS, rows=50)
        assert server.submit(itemise(C, add=rows(5)), "m").accepted
        gone = server.submit(itemise(C, delete=(np.zeros((5, D)), [1] * 5)), "m")
        assert not gone.accepted and gone.rule == "ownership"
        assert server.submit(itemise(C, add=(np.zeros((2, D)), [1, 1])), "m").accepted
        assert server.submit(itemise(C, delete=(np.zeros((2, D)), [1, 1])), "m").accepted
        assert server.admission[0].rows("m") == 5

    @pytest.mark.parametrize("keep_totals", [False, True])
    def test_what_a_deletion_of_sums_declares_is_not_believed(self, keep_totals):
        server = hardened(
            Ledger.zeros(D, C, GAMMA), bounds=BOUNDS, rows=50, show_rows=False, keep_totals=keep_totals, least_norm=0.01
        )
        rule = server.admission[0]
        for seed in range(3):
            server.submit(Update.adding(Summary.of(*rows(4, 2.0, seed), C)), "m")
        assert rule.rows("m") == pytest.approx(12)
        server.submit(count(Update.deleting(Summary.zeros(D, C)), deleted=[5, 0, 0]), "m")
        short = Summary.of(*rows(1, 0.1, 7), C)
        server.submit(Update(short, short), "m")
        server.submit(count(Update(Summary.zeros(D, C), short), deleted=[5, 0, 0]), "m")
        assert rule.rows("m") >= 12 - 1.001 * short.trace / BOUNDS.longest**2  # kept totals may lose any part of them
        assert not server.submit(Update.adding(Summary.of(*rows(1, 2.0, 9), C)), "m").accepted

    def test_rows_beside_sums_that_nobody_checks_are_no_credit_either(self):
        server = hardened(Ledger.zeros(D, C, GAMMA), bounds=BOUNDS, rows=50, show_rows=False)
        assert server.submit(itemise(C, add=rows(5, 2.0)), "m").accepted
        server.submit(itemise(C, delete=(np.zeros((5, D)), [1] * 5)), "m")
        assert server.admission[0].rows("m") == pytest.approx(5)

    def test_what_comes_and_goes_as_sums_costs_nothing_in_the_end(self):
        server = hardened(Ledger.zeros(D, C, GAMMA), bounds=BOUNDS, rows=50, show_rows=False)
        for turn in range(40):
            sent = Summary.of(*rows(5, 2.0, turn), C)
            assert server.submit(Update.adding(sent), "honest").accepted
            assert server.submit(Update.deleting(sent), "honest").accepted
        assert server.admission[0].rows("honest") == pytest.approx(0, abs=1e-9)

    def test_many_small_messages_have_no_larger_moment_than_their_rows(self):
        """Each message could have five rows by its moment: so many messages, and the client would have far too many."""
        rule = BoundedInfluence(**BOUNDS.options(), by_rows=False)
        one = Summary.of(*rows(1), C)
        loud = Update.adding(one.with_moment(np.sqrt(5.0) * one.moment))
        taken = 0
        while rule.refuse(loud, "m") is None:
            rule.record(loud, "m")
            taken += 1
        # K sqrt(5) <= sqrt(12 K): the moments of twelve rows, and no more.
        assert taken == 2 and "moments" in rule.refuse(loud, "m")

    def test_one_round_has_no_more_new_clients_than_there_are_seats(self):
        rule = BoundedInfluence(**BOUNDS.options(), clients=2)
        server = Server(Ledger.zeros(D, C, GAMMA), admission=[rule])
        assert server.submit(itemise(C, add=rows(1)), "alice").accepted
        receipts = server.submit_round([(f"m{i}", itemise(C, add=rows(1, seed=i))) for i in range(4)])
        assert [r.accepted for r in receipts] == [True, False, False, False]
        assert server.submit_round([("alice", itemise(C, add=rows(1))), ("m0", itemise(C, add=rows(1)))])[1].accepted

    def test_sums_that_cannot_be_proved_positive_have_seats_by_the_ridge(self):
        wide = Bounds(longest=40.0, message_rows=5000, client_rows=5000)
        ledger = Ledger.zeros(D, C, GAMMA)
        most = hardened(ledger, bounds=wide, rows=50, show_rows=False).admission[0].clients
        forgiven = (5000 + D + 1) * 2.0**-53 * 5000 * 40.0**2
        assert most == int(GAMMA / 2 / forgiven) == 112
        assert hardened(ledger, bounds=wide, rows=50).admission[0].clients is None
        for grid in (None, 2.0**-6):  # sums on a grid are exact, and a factorisation of them rounds
            with pytest.raises(InputError, match="gamma must be large enough"):
                hardened(Ledger.zeros(D, C, 1e-9, grid=grid), bounds=wide, rows=50, show_rows=False)

    def test_a_state_of_one_number_a_client_is_still_read(self):
        for by_rows in (True, False):
            rule = BoundedInfluence(**BOUNDS.options(), by_rows=by_rows)
            memory = rule.remembered()
            rule.restore(replace(memory, values={"rows": {"a": 4.0}}))
            assert rule.rows("a") == 4.0
            again = BoundedInfluence(**BOUNDS.options(), by_rows=by_rows)
            again.load(rule.save())
            assert again.rows("a") == 4.0
