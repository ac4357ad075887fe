import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from exhume import Ledger, Summary, Update
from exhume.errors import HeadroomError, InputError, SingularStateError
from exhume.protocol import snap
from exhume.protocol.ledger import LARGEST
from tests.protocol.histories import histories


def bits(ledger):
    return ledger.summary.gram.tobytes(), ledger.summary.moment.tobytes()


def replay(history, ledger, grid=None):
    for kind, numbers in history.steps:
        features, labels = history.batch(numbers)
        summary = Summary.of(snap(features, grid), labels, history.classes)
        ledger.apply(Update.adding(summary) if kind == "add" else Update.deleting(summary))
    return ledger


@settings(max_examples=150)
@given(histories(), st.sampled_from([0.1, 1.0, 10.0]))
def test_head_equals_scikit_learn_on_the_retained_rows(history, gamma):
    d = history.features.shape[1]
    head = replay(history, Ledger.zeros(d, history.classes, gamma)).head()
    rows = history.retained
    if not rows:
        assert np.abs(head).max() <= 1e-12 / gamma
        return
    X, y = history.batch(rows)
    ridge = Ridge(alpha=gamma, fit_intercept=False, solver="cholesky").fit(X, np.eye(history.classes)[y])
    want = np.atleast_2d(ridge.coef_).T
    assert np.linalg.norm(head - want) <= 1e-9 * max(np.linalg.norm(want), 1e-3)


def test_head_of_an_empty_ledger_is_zero():
    assert not Ledger.zeros(5, 3, 0.1).head().any()


def test_moment_only_update_keeps_the_factor():
    rng = np.random.default_rng(0)
    ledger = Ledger(Summary.of(rng.normal(size=(30, 8)), rng.integers(0, 3, 30), 3), 0.5)
    ledger.head()
    before = ledger.factorisations
    u = rng.normal(size=8)
    pair = Update(Summary.of([u], [1], 3), Summary.of([-u], [1], 3))
    ledger.apply(pair)
    ledger.head()
    assert ledger.factorisations == before
    want = np.linalg.solve(ledger.summary.gram + 0.5 * np.eye(8), ledger.summary.moment)
    np.testing.assert_allclose(ledger.head(), want, rtol=1e-10, atol=1e-13)
    ledger.apply(Update.adding(Summary.of([u], [1], 3)))
    assert ledger.factorisations == before + 1


@settings(max_examples=100)
@given(histories(), st.integers(4, 12), st.randoms(use_true_random=False))
def test_bit_exact_mode_forgets_bitwise_in_any_order(history, k, random):
    grid = 2.0**-k
    d, c = history.features.shape[1], history.classes
    ledger = replay(history, Ledger.zeros(d, c, 0.1, grid=grid), grid)
    fresh = Ledger.zeros(d, c, 0.1, grid=grid)
    rows = history.retained
    random.shuffle(rows)
    for r in rows:
        features, labels = history.batch([r])
        fresh.apply(Update.adding(Summary.of(snap(features, grid), labels, c)))
    assert bits(ledger) == bits(fresh)
    assert ledger.head().tobytes() == fresh.head().tobytes()


def test_without_the_grid_the_same_history_is_not_bitwise():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(5, 4)), rng.normal(size=(5, 4))
    zero = [0] * 5
    ledger = Ledger.zeros(4, 1, 0.1)
    for update in (
        Update.adding(Summary.of(a, zero, 1)),
        Update.adding(Summary.of(b, zero, 1)),
        Update.deleting(Summary.of(a, zero, 1)),
    ):
        ledger.apply(update)
    fresh = Ledger(Summary.of(b, zero, 1), 0.1)
    assert bits(ledger) != bits(fresh)


def test_headroom_counts_down_and_the_update_past_it_is_refused():
    grid = 2.0**-20
    ledger = Ledger.zeros(1, 1, 1.0, grid=grid)
    room = ledger.headroom(1.0)
    assert room == (2**53 - 1) // 2**40
    row = Summary.of([[1.0]], [0], 1)
    ledger.apply(Update.adding(row))
    assert ledger.headroom(1.0) == room - 1
    big = Summary(np.array([[float(room - 1)]]), np.array([[float(room - 1)]]))
    ledger.apply(Update.adding(big))
    assert ledger.headroom(1.0) == 0
    kept = bits(ledger)
    with pytest.raises(HeadroomError, match=r"total gram must be below 2\*\*53"):
        ledger.apply(Update.adding(row))
    assert bits(ledger) == kept
    assert Ledger.zeros(1, 1, 1.0).headroom() is None


def test_values_between_grid_points_are_refused():
    ledger = Ledger.zeros(2, 1, 1.0, grid=0.25)
    with pytest.raises(InputError, match=r"add.gram must be on the ledger's grid of 0.25"):
        ledger.apply(Update.adding(Summary.of([[0.3, 0.5]], [0], 1)))


@pytest.mark.parametrize("grid", [0.3, 2.0, 0.0, -0.5, 2.0**-41])
def test_bad_grid(grid):
    with pytest.raises(InputError, match="grid must be a power of two"):
        Ledger.zeros(2, 1, 1.0, grid=grid)


@pytest.mark.parametrize("gamma", [0.0, -1.0, np.nan, np.inf])
def test_bad_gamma(gamma):
    with pytest.raises(InputError, match="gamma must be a finite number above 0"):
        Ledger.zeros(2, 1, gamma)


def test_refused_updates_leave_the_ledger_bitwise_unchanged():
    rng = np.random.default_rng(1)
    ledger = Ledger(Summary.of(rng.normal(size=(20, 6)), rng.integers(0, 2, 20), 2), 0.1)
    kept, head = bits(ledger), ledger.head().tobytes()
    with pytest.raises(InputError, match=r"update must be of d = 6, c = 2.*d = 5"):
        ledger.apply(Update.adding(Summary.zeros(5, 2)))
    with pytest.raises(InputError, match="c = 3"):
        ledger.apply(Update.adding(Summary.zeros(6, 3)))
    with pytest.raises(SingularStateError, match="stays positive definite"):
        ledger.apply(Update.deleting(Summary.of(100 * np.eye(6), [0] * 6, 2)))
    assert bits(ledger) == kept
    assert ledger.head().tobytes() == head


@pytest.mark.parametrize("huge", [1.7e308, 1e200, 1e150])
def test_totals_whose_head_could_overflow_are_refused(huge):
    ledger = Ledger(Summary.of(np.eye(2), [0, 1], 2), 1.0)
    kept, head = bits(ledger), ledger.head().tobytes()
    moment = np.zeros((2, 2))
    moment[0, 1] = huge
    for summary in (Summary(np.zeros((2, 2)), moment), Summary(np.diag([huge, 0.0]), np.zeros((2, 2)))):
        with pytest.raises(InputError, match="update must be such that the totals stay finite"):
            ledger.apply(Update.adding(summary))
        with pytest.raises(InputError, match="total must be such that the totals stay finite"):
            Ledger(summary, 1.0)
    assert bits(ledger) == kept and ledger.head().tobytes() == head


def test_the_largest_totals_have_finite_heads_and_norms():
    for gamma in (1e-300, 1.0, 1e30):
        total = Summary(np.eye(2) * LARGEST / 2, np.full((2, 2), min(LARGEST, 2.0**1000 * gamma)))
        for ledger in (Ledger(total, gamma), Ledger(Summary(np.zeros((2, 2)), total.moment), gamma)):
            assert np.isfinite(ledger.head()).all() and np.isfinite(ledger.size())
    with pytest.raises(InputError, match="stay finite"):
        Ledger(Summary(np.zeros((1, 1)), np.ones((1, 1))), 1e-305)  # its head would be 1e305


@pytest.mark.parametrize("solver", ["direct", "low-rank"])
def test_a_ledger_leaves_the_summary_that_it_started_from_alone(solver):
    rng = np.random.default_rng(0)
    start = Summary.of(rng.standard_normal((30, 9)), rng.integers(0, 2, 30), 2)
    before, ledger = start.gram.copy(), Ledger(start, 1.0, solver=solver)
    twin = Ledger(start, 1.0, solver=solver)
    for i in range(6):
        more = Summary.of(rng.standard_normal((1 + 8 * (i % 2), 9)), [0] * (1 + 8 * (i % 2)), 2)
        undo = ledger.checkpoint()
        ledger.apply(Update.adding(more))
        if i == 3:
            undo()
        ledger.head()
    assert np.array_equal(start.gram, before) and np.array_equal(twin.summary.gram, before)


def test_copy_is_independent():
    ledger = Ledger(Summary.of(np.eye(3), [0, 1, 2], 3), 1.0)
    ledger.head()
    twin = ledger.copy()
    twin.apply(Update.adding(Summary.of(np.eye(3), [0, 1, 2], 3)))
    np.testing.assert_allclose(ledger.head(), np.eye(3) / 2)
    np.testing.assert_allclose(twin.head(), np.eye(3) * 2 / 3)


def test_a_copy_has_the_factor_if_there_is_one_and_makes_it_if_not():
    unfactored = Ledger(Summary.of(np.eye(3), [0, 1, 2], 3), 1.0)
    twin = unfactored.copy()
    np.testing.assert_allclose(twin.head(), np.eye(3) / 2)
    assert (twin.factorisations, unfactored.factorisations) == (1, 0)
    again = twin.copy()
    assert again.head().tobytes() == twin.head().tobytes()
    assert again.factorisations == 0


def test_a_saved_ledger_holds_its_totals_and_its_factor_and_no_scratch():
    ledger = Ledger.zeros(64, 1, 1.0)
    for _ in range(2):
        ledger.apply(Update.adding(Summary.of(np.eye(64), [0] * 64, 1)))
    data = pickle.dumps(ledger)
    assert len(data) < 2.1 * 64 * 64 * 8
    again = pickle.loads(data)
    again.apply(Update.adding(Summary.of(np.eye(64), [0] * 64, 1)))
    np.testing.assert_allclose(again.head(), np.full((64, 1), 0.75))


@pytest.mark.parametrize("largest", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("grid", [None, 0.25])
def test_headroom_is_asked_for_entries_above_0(largest, grid):
    with pytest.raises(InputError, match="largest must be a finite number above 0"):
        Ledger.zeros(2, 1, 1.0, grid=grid).headroom(largest)


def test_a_checkpoint_takes_one_change_back_bitwise():
    rng = np.random.default_rng(1)
    ledger = Ledger(Summary.of(rng.normal(size=(20, 6)), rng.integers(0, 2, 20), 2), 0.1)
    more = Summary.of(rng.normal(size=(3, 6)), [0, 1, 1], 2)
    changes = [Update.adding(more), Update(more, more.with_moment(2 * more.moment)), Update.deleting(more)]
    for _ in range(2):
        for change in changes:
            kept, head, lost = bits(ledger), ledger.head().tobytes(), ledger.lost
            undo = ledger.checkpoint()
            ledger.apply(change)
            assert bits(ledger) != kept
            undo()
            assert (bits(ledger), ledger.head().tobytes(), ledger.lost) == (kept, head, lost)
        ledger.apply(changes[0])


class TestRounds:
    def parts(self):
        rng = np.random.default_rng(0)
        blocks = [Summary.of(rng.normal(size=(4, 5)), rng.integers(0, 2, 4), 2) for _ in range(9)]
        ledger = Ledger(sum(blocks[1:6], blocks[0]), 0.1)
        return ledger, blocks

    def test_the_sum_of_a_round_is_applied_at_once(self):
        ledger, blocks = self.parts()
        twin, before = ledger.copy(), ledger.factorisations
        assert ledger.apply_round([Update.adding(b) for b in blocks[6:]]) == [None] * 3
        twin.apply(Update.adding(blocks[6] + blocks[7] + blocks[8]))
        assert bits(ledger) == bits(twin)
        assert ledger.factorisations == before + 1

    @pytest.mark.parametrize("culprits", [{0}, {4}, {8}, {2, 3}, {0, 8}, set(range(9))])
    def test_only_what_does_not_fit_is_left_out(self, culprits):
        ledger, blocks = self.parts()
        kept, twin = bits(ledger), ledger.copy()
        impossible = Update.deleting(Summary.of(1e3 * np.eye(5), [0] * 5, 2))
        updates = [impossible if i in culprits else Update.adding(b) for i, b in enumerate(blocks)]
        errors = ledger.apply_round(updates)
        assert {i for i, error in enumerate(errors) if error is not None} == culprits
        assert all(isinstance(error, SingularStateError) for error in errors if error is not None)
        if len(culprits) == 9:
            assert bits(ledger) == kept
            return
        for i, update in enumerate(updates):
            if i not in culprits:
                twin.apply(update)
        np.testing.assert_allclose(ledger.summary.gram, twin.summary.gram, rtol=1e-13, atol=1e-12)
        np.testing.assert_allclose(ledger.head(), twin.head(), rtol=1e-10, atol=1e-12)

    def test_updates_of_other_sizes_and_overflowing_sums_are_left_out(self):
        ledger, blocks = self.parts()
        fine, small, big = Update.adding(blocks[6]), Update.adding(Summary.zeros(4, 2)), np.zeros((5, 2))
        big[0, 0] = 1.7e308
        giant = Update.adding(Summary(np.zeros((5, 5)), big))
        errors = ledger.apply_round([giant, fine, small, giant])
        assert [error is None for error in errors] == [False, True, False, False]

    def test_of_two_that_do_not_fit_together_the_first_is_taken(self):
        ledger, blocks = self.parts()
        most = Update.deleting(sum(blocks[1:6], blocks[0]))
        assert [error is None for error in ledger.apply_round([most, most])] == [True, False]

    @pytest.mark.parametrize("deletes", [False, True])
    def test_on_a_grid_each_update_of_a_round_is_judged_alone(self, deletes):
        """What rounds away beside somebody else's number was accepted where that was there: it told their labels."""
        row, tiny = np.array([[1.5, 2.0, 1.0, 0.5]]), np.array([[2.0**-60, 0.0, 0.0, 0.0]])
        make = Update.deleting if deletes else Update.adding
        for label, guess in itertools.product(range(2), range(2)):
            for factored in (True, False):
                ledger = Ledger(Summary.of(row, [label], 2), 1e-3, grid=2.0**-6)
                twin = ledger.copy()
                theirs, probe = (Summary.of(f, [y], 2, factored=factored) for f, y in ((row, label), (tiny, guess)))
                errors = ledger.apply_round([make(theirs), make(probe)])
                assert errors[0] is None and errors[1].allowed == "on the ledger's grid of 0.015625 (use snap)"
                twin.apply(make(theirs))
                assert bits(ledger) == bits(twin)
                kept = bits(ledger)
                assert None not in ledger.apply_round([make(probe), make(probe)]) and bits(ledger) == kept

    def test_a_round_is_one_update(self):
        ledger, blocks = self.parts()
        ledger.apply(Update.adding(blocks[6]))
        ledger.apply_round([Update.adding(blocks[7]), Update.deleting(Summary.of(1e3 * np.eye(5), [0] * 5, 2))])
        assert repr(ledger) == "Ledger(d=5, c=2, gamma=0.1, updates=2)"

    def test_a_round_that_was_left_out_in_part_can_be_taken_back(self):
        ledger, blocks = self.parts()
        kept, head = bits(ledger), ledger.head().tobytes()
        undo = ledger.checkpoint()
        ledger.apply_round([Update.adding(blocks[6]), Update.deleting(Summary.of(1e3 * np.eye(5), [0] * 5, 2))])
        assert bits(ledger) != kept
        undo()
        assert (bits(ledger), ledger.head().tobytes()) == (kept, head)


@pytest.mark.parametrize("solver", ["direct", "low-rank"])
def test_what_is_proved_positive_gets_its_factor_when_somebody_asks(solver):
    rng = np.random.default_rng(3)
    F, y = rng.normal(size=(30, 4)), rng.integers(0, 2, 30)
    blocks = [Summary.of(F[i : i + 1], y[i : i + 1], 2) for i in range(20, 24)]
    plain, lazy = (Ledger(Summary.of(F[:20], y[:20], 2), 1e-3, solver=solver) for _ in range(2))
    lazy.head()
    moves = [*map(Update.adding, blocks), Update.deleting(blocks[1]), Update(Summary.zeros(4, 2), Summary.zeros(4, 2))]
    for move in moves:
        undo = lazy.checkpoint()
        before = lazy.summary
        assert lazy.apply_round([move], proved=True) == [None]
        undo()
        assert lazy.summary == before
        assert lazy.apply_round([move], proved=True) == [None]
        assert plain.apply_round([move]) == [None]
    assert lazy.factorisations == 1
    plain.settle()
    assert bits(lazy)[:2] == bits(plain)[:2] if solver == "direct" else True
    np.testing.assert_allclose(lazy.head(), plain.head(), rtol=1e-10)
    assert lazy.factorisations == 2


def test_residual_and_size_are_those_of_the_ridge_equation():
    rng = np.random.default_rng(3)
    total = Summary.of(rng.normal(size=(20, 5)), rng.integers(0, 3, 20), 3)
    ledger = Ledger(total, 0.7)
    A = total.gram + 0.7 * np.eye(5)
    W = rng.normal(size=(5, 3))
    np.testing.assert_allclose(ledger.residual(W), A @ W - total.moment, rtol=1e-13, atol=1e-13)
    assert np.abs(ledger.residual(ledger.head())).max() < 1e-12
    assert ledger.size() == pytest.approx(np.linalg.norm(A), rel=1e-14)


def test_headroom_counts_an_entry_between_two_steps_as_the_larger():
    ledger = Ledger.zeros(1, 1, 1.0, grid=0.5)
    assert ledger.headroom(0.75) == ledger.headroom(1.0) < ledger.headroom(0.5)
