import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from exhume import Ledger, Summary, Update
from exhume.errors import HeadroomError, InputError, SingularStateError
from exhume.protocol import snap
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


def test_overflow_of_totals_is_refused():
    huge = Summary(np.full((1, 1), 1.5e308), np.zeros((1, 1)))
    ledger = Ledger(huge, 1.0)
    kept = bits(ledger)
    with pytest.raises(InputError, match="stay finite"):
        ledger.apply(Update.adding(huge))
    assert bits(ledger) == kept


def test_copy_is_independent():
    ledger = Ledger(Summary.of(np.eye(3), [0, 1, 2], 3), 1.0)
    ledger.head()
    twin = ledger.copy()
    twin.apply(Update.adding(Summary.of(np.eye(3), [0, 1, 2], 3)))
    np.testing.assert_allclose(ledger.head(), np.eye(3) / 2)
    np.testing.assert_allclose(twin.head(), np.eye(3) * 2 / 3)


def test_residual_and_size_are_those_of_the_ridge_equation():
    rng = np.random.default_rng(3)
    total = Summary.of(rng.normal(size=(20, 5)), rng.integers(0, 3, 20), 3)
    ledger = Ledger(total, 0.7)
    A = total.gram + 0.7 * np.eye(5)
    W = rng.normal(size=(5, 3))
    np.testing.assert_allclose(ledger.residual(W), A @ W - total.moment, rtol=1e-13, atol=1e-13)
    assert np.abs(ledger.residual(ledger.head())).max() < 1e-12
    assert ledger.size() == pytest.approx(np.linalg.norm(A), rel=1e-14)
