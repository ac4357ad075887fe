"""Heads that follow changes of few rows from a kept factor."""

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume import Ledger, Server, Summary, Update
from exhume.defence import Config
from exhume.defence.store import load_server, save_server
from exhume.errors import InputError, SingularStateError
from exhume.protocol import ledger as ledgers
from exhume.protocol import low_rank
from exhume.protocol.low_rank import BACKWARD, SHARE
from exhume.protocol.rules import Heads
from tests.attack.exact import exact, floats

U = 2.0**-53
C, GAMMA = 3, 0.1


def block(rng, b, d, c=C):
    return Summary.of(rng.normal(size=(b, d)), rng.integers(0, c, b), c)


def start(d, seed=0, solver="low-rank", gamma=GAMMA):
    rng = np.random.default_rng(seed)
    ledger = Ledger(block(rng, 2 * d, d), gamma, solver=solver)
    ledger.head()
    return ledger, rng


def state(ledger):
    total = ledger.summary
    return total.gram + ledger.gamma * np.eye(ledger.d), total.moment


def allowed(ledger, terms):
    """The backward error that the ledger promises: its own test, and the roundoff of computing the residual in it.

    A product with A sums d + 2 terms, and those of pending rows twice as many as there are rows (Higham, section 3.5).
    """
    return BACKWARD + (ledger.d + 2 + 2 * terms) * U


def backward(ledger):
    A, G = state(ledger)
    W = ledger.head()
    return np.linalg.norm(G - A @ W) / (np.linalg.norm(A) * np.linalg.norm(W) + np.linalg.norm(G))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(8, 24), st.lists(st.sampled_from(["add", "delete", "both", "moment"])))
def test_the_head_solves_the_exact_equation_after_any_history(seed, d, kinds):
    """Against rationals: the exact sums of the exact products of all factors."""
    ledger, rng = start(d, seed)
    S, G = exact(ledger.summary.gram), exact(ledger.summary.moment)
    held = []
    for kind in kinds:
        add = delete = Summary.zeros(d, C)
        if kind in ("add", "both"):
            held.append(block(rng, int(rng.integers(1, 3)), d).sent())
            add = held[-1]
        if kind in ("delete", "both") and held:
            delete = held.pop(int(rng.integers(len(held))))
        if kind == "moment":
            add = Summary.zeros(d, C).with_moment(rng.normal(size=(d, C)))
        ledger.apply(Update(add, delete))
        for sign, side in ((1, add), (-1, delete)):
            factor = exact(side.factor) if len(side.factor) else None
            S = S if factor is None else S + sign * (factor.transpose() * factor)
            G = G + sign * exact(side.moment)
    W = exact(ledger.head())
    A = S + exact(ledger.gamma * np.eye(d))
    rest = np.linalg.norm(floats(G - A * W))
    sizes = np.linalg.norm(floats(A)) * np.linalg.norm(ledger.head()) + np.linalg.norm(floats(G))
    lost = ledger.lost.gram * np.linalg.norm(ledger.head()) + ledger.lost.moment
    assert rest <= allowed(ledger, d // SHARE) * sizes + lost


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(16, 40), st.integers(1, 2), st.booleans())
def test_it_follows_without_a_new_factor_and_agrees_with_a_fresh_solve(seed, d, b, delete):
    ledger, rng = start(d, seed)
    before = ledger.factorisations
    one = block(rng, b, d)
    ledger.apply(Update.adding(one))
    if delete:
        ledger.apply(Update.deleting(one))
    assert ledger.factorisations == before or ledger.pending == 0
    A, G = state(ledger)
    W = np.linalg.solve(A, G)
    # Both are within their backward errors of the truth, times the condition number.
    room = np.linalg.cond(A) * np.linalg.norm(A) / np.linalg.norm(A, 2) * (allowed(ledger, b) + 10 * d * U)
    assert np.linalg.norm(ledger.head() - W) <= 2 * room * np.linalg.norm(W)


def test_the_factor_is_made_anew_when_enough_is_pending():
    d = 64
    ledger, rng = start(d)
    counts = []
    for _ in range(2 * d // SHARE + 2):
        ledger.apply(Update.adding(block(rng, 1, d)))
        counts.append((ledger.factorisations, ledger.pending))
    assert counts[d // SHARE - 1] == (1, d // SHARE)
    assert counts[d // SHARE] == (2, 0)
    ledger.apply(Update.adding(block(rng, d // SHARE + 1, d)))  # too many rows at once
    assert ledger.pending == 0
    ledger.apply(Update.adding(Summary(np.eye(d), np.ones((d, C)))))  # no factor at all
    assert ledger.pending == 0 and backward(ledger) <= allowed(ledger, 0)


def test_a_thousand_mixed_updates_without_a_new_factor_drift_no_further_than_one(monkeypatch):
    """The residual is tested after each: what is lost on the way never adds up."""
    monkeypatch.setattr(ledgers, "SHARE", 2.0**-20)
    d = 24
    ledger, rng = start(d)
    held, worst = [], 0.0
    for i in range(1000):
        if i % 3 == 2:
            ledger.apply(Update.deleting(held.pop(int(rng.integers(len(held))))))
        elif i % 50 == 7:
            ledger.apply(Update.adding(Summary.zeros(d, C).with_moment(rng.normal(size=(d, C)))))
        else:
            held.append(block(rng, 1, d))
            ledger.apply(Update.adding(held[-1]))
        if i % 25 == 0 or i > 990:
            worst = max(worst, backward(ledger))
    assert ledger.factorisations == 1 and ledger.pending > 900
    assert worst <= allowed(ledger, ledger.pending)
    A, G = state(ledger)
    # The relative error that such a residual leaves: |A^-1| (|A| |W| + |G|) times it, over |W|.
    W = np.linalg.solve(A, G)
    sizes = (np.linalg.norm(A) * np.linalg.norm(W) + np.linalg.norm(G)) / np.linalg.norm(W)
    room = np.linalg.norm(np.linalg.inv(A), 2) * sizes * (worst + 10 * d * U)
    assert np.linalg.norm(ledger.head() - W) <= 2 * room * np.linalg.norm(W)


def test_a_residual_that_does_not_come_down_makes_a_new_factor(monkeypatch):
    monkeypatch.setattr(low_rank, "BACKWARD", 0.0)
    ledger, rng = start(32)
    ledger.apply(Update.adding(block(rng, 1, 32)))
    assert ledger.factorisations == 2 and ledger.pending == 0


def test_what_leaves_no_positive_definite_state_is_refused_and_changes_nothing():
    ledger, rng = start(32)
    ledger.apply(Update.adding(block(rng, 1, 32)))
    twin = ledger.copy()
    large = Summary.factored(10.0 * rng.normal(size=(1, 32)), np.zeros((32, C)))
    with pytest.raises(SingularStateError):
        ledger.apply(Update.deleting(large))
    assert ledger.head().tobytes() == twin.head().tobytes()
    for _ in range(6):
        update = Update.adding(block(rng, 1, 32))
        ledger.apply(update)
        twin.apply(update)
        assert ledger.head().tobytes() == twin.head().tobytes()


@pytest.mark.parametrize("pending", [1, 4])
def test_a_checkpoint_takes_one_change_back_and_what_follows_is_bitwise_the_same(pending):
    d = 32  # four rows may be pending: the fifth makes a new factor
    ledger, rng = start(d)
    for _ in range(pending):
        ledger.apply(Update.adding(block(rng, 1, d)))
    twin = copy.deepcopy(ledger)
    undo = ledger.checkpoint()
    ledger.apply(Update.adding(block(rng, 1, d)))
    undo()
    for update in [Update.adding(block(rng, 1, d)) for _ in range(7)]:
        assert ledger.head().tobytes() == twin.head().tobytes()
        assert ledger.summary.gram.tobytes() == twin.summary.gram.tobytes()
        ledger.apply(update)
        twin.apply(update)
    assert ledger.head().tobytes() == twin.head().tobytes() and ledger.pending == twin.pending


def test_copies_of_every_kind_go_on_bitwise_alike():
    ledger, rng = start(40)
    ledger.apply(Update.adding(block(rng, 2, 40)))
    twins = [ledger.copy(), copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))]
    for update in [Update.adding(block(rng, 1, 40)) for _ in range(6)]:
        for one in (ledger, *twins):
            one.apply(update)
        assert len({one.head().tobytes() for one in (ledger, *twins)}) == 1


def test_totals_norms_and_solves_count_what_is_pending():
    ledger, rng = start(40)
    direct = Ledger(ledger.summary, GAMMA)
    one, two, three = (block(rng, 1, 40) for _ in range(3))
    for update in (Update.adding(one), Update.adding(two), Update(three, two)):
        ledger.apply(update)
        direct.apply(update)
    assert ledger.pending == 4 and ledger.changes == 3
    np.testing.assert_allclose(ledger.summary.gram, direct.summary.gram, rtol=1e-13, atol=1e-12)
    assert ledger.size() == pytest.approx(direct.size(), rel=1e-13)
    W = rng.normal(size=(40, C))
    np.testing.assert_allclose(ledger.residual(W), direct.residual(W), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(ledger.solve(W), direct.solve(W), rtol=1e-10)
    assert ledger.drift().head == pytest.approx(direct.drift().head, rel=10)
    ledger.apply(Update.adding(block(rng, 1, 40)))
    white = rng.normal(size=(40, 5))
    coloured = ledger.colour(white)
    A = state(ledger)[0]
    np.testing.assert_allclose(coloured.T @ A @ coloured, white.T @ white, rtol=1e-9, atol=1e-9)
    assert ledger.pending == 0


def test_a_settled_ledger_keeps_no_row_as_it_came():
    ledger, rng = start(40)
    gone = Summary.of(rng.normal(size=(1, 40)), [0], C)
    ledger.apply(Update.adding(gone))
    ledger.apply(Update.deleting(gone))
    row = gone.factor[0].tobytes()
    assert row in pickle.dumps(ledger)
    ledger.settle()
    assert row not in pickle.dumps(ledger)
    assert backward(ledger) <= allowed(ledger, 0)


def test_a_saved_server_comes_back_and_goes_on_bitwise(tmp_path):
    rng = np.random.default_rng(0)
    server = Server(Ledger(block(rng, 80, 40), GAMMA, solver="low-rank"), release=Heads("float64"))
    server.head()
    for _ in range(3):
        server.submit(Update.adding(block(rng, 1, 40)), "a")
    assert server.ledger.pending == 3
    save_server(server, tmp_path / "server")
    again = load_server(Config(), tmp_path / "server")
    assert again.ledger.solver == "low-rank" and server.ledger.pending == 0
    assert again.head() == server.head()
    for update in [Update.adding(block(rng, 1, 40)) for _ in range(7)]:
        heads = [one.submit(update, "a").head.weights.tobytes() for one in (server, again)]
        assert heads[0] == heads[1]


def test_threads_may_share_it():
    d = 32
    server = Server(Ledger.zeros(d, C, 1.0, solver="low-rank"))
    blocks = [[block(np.random.default_rng(100 * t + i), 1, d) for i in range(20)] for t in range(4)]

    def work(mine):
        for one in mine:
            assert server.submit(Update.adding(one), threading.current_thread().name).accepted
        for one in mine[::2]:
            assert server.submit(Update.deleting(one), threading.current_thread().name).accepted

    threads = [threading.Thread(target=work, args=(mine,), name=f"c{t}") for t, mine in enumerate(blocks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    left = [one for mine in blocks for one in mine[1::2]]
    A, G = sum(s.gram for s in left) + np.eye(d), sum(s.moment for s in left)
    np.testing.assert_allclose(server.head().weights, np.linalg.solve(A, G), atol=1e-10)
    assert server.counts.submissions == 120


def test_a_round_with_a_culprit_leaves_the_others_in():
    ledger, rng = start(40)
    good = [Update.adding(block(rng, 1, 40)) for _ in range(3)]
    bad = Update.deleting(Summary.factored(10.0 * rng.normal(size=(1, 40)), np.zeros((40, C))))
    errors = ledger.apply_round([good[0], bad, *good[1:]])
    assert [error is None for error in errors] == [True, False, True, True]
    other, _ = start(40)
    for update in good:
        other.apply(update)
    np.testing.assert_allclose(ledger.head(), other.head(), rtol=1e-9)


def test_the_solver_has_a_name_and_a_grid_takes_the_direct_one():
    assert Ledger.zeros(2, 1, 1.0).solver == "direct"
    with pytest.raises(InputError, match="solver must be direct or low-rank; got 'woodbury'"):
        Ledger.zeros(2, 1, 1.0, solver="woodbury")
    with pytest.raises(InputError, match="solver must be direct in bit-exact mode; got 'low-rank'"):
        Ledger.zeros(2, 1, 1.0, grid=0.5, solver="low-rank")
