"""Summaries that carry a factor of their gram instead of the gram."""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from exhume import Client, Ledger, Server, Summary, Update
from exhume.errors import InputError, WireError
from exhume.protocol import gram as grams
from exhume.protocol._triangle import triangular
from exhume.protocol.wire import decode_update, encode_update

U = 2.0**-53


def batch(seed, b, d, c=3, dead=0.0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(b, d)).clip(0 if dead else None)
    rows[:, rng.random(d) < dead] = 0.0
    return rows, rng.integers(0, c, b)


def few(seed=0, b=2, d=6, c=3):
    return Summary.of(*batch(seed, b, d, c), c)


@st.composite
def wide(draw):
    b = draw(st.integers(1, 8))
    d = draw(st.integers(b + 1, 24))
    rows, _ = batch(draw(st.integers(0, 2**32 - 1)), b, d, dead=draw(st.sampled_from([0.0, 0.4, 0.8])))
    if draw(st.booleans()):
        rows[-1] = rows[0]  # a dependency
    return rows


@given(wide())
def test_the_factor_makes_the_gram_of_the_rows(rows):
    factor = triangular(rows)
    assert factor.shape[0] <= min(rows.shape)
    # Householder QR of b rows moves a column by at most about 6 b^2 u of its length (Higham, Theorem 19.4), and what
    # counts as zero is 16 b u of it: the product of two columns moves by twice that.
    sizes = np.linalg.norm(rows, axis=0)
    allowed = 2 * (6 * len(rows) ** 2 + 16 * len(rows) + rows.shape[1]) * U * np.outer(sizes, sizes)
    assert (np.abs(factor.T @ factor - rows.T @ rows) <= allowed).all()


@given(wide())
def test_the_factor_is_an_echelon_form_with_positive_pivots(rows):
    factor = triangular(rows)
    pivots = [int(np.flatnonzero(row)[0]) for row in factor]
    assert pivots == sorted(set(pivots))
    assert all(row[j] > 0 for row, j in zip(factor, pivots, strict=True))


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([0.0, 0.5]))
def test_rotated_rows_give_the_same_factor(seed, b, dead):
    rows, _ = batch(seed, b, 30, dead=dead)
    turn, _ = np.linalg.qr(np.random.default_rng(seed + 1).normal(size=(b, b)))
    one, other = triangular(rows), triangular(turn @ rows)
    assert one.shape == other.shape
    # R follows a change of the rows by at most about the condition of its pivot columns times it (Stewart, 1977).
    pivots = [int(np.flatnonzero(row)[0]) for row in one]
    condition = np.linalg.cond(one[:, pivots]) ** 2
    assert np.linalg.norm(one - other) <= 100 * b**2 * U * condition * np.linalg.norm(rows)


def test_dead_columns_do_not_give_the_rotation_away():
    rows = np.array([[0.0, 0.0, 3.0, 1.0, 2.0], [0.0, 0.0, 4.0, 5.0, 1.0]])
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    np.testing.assert_allclose(triangular(rows), triangular(turn @ rows), rtol=1e-14)
    assert triangular(rows)[1, 2] == 0.0
    late = np.array([[1.0, 2.0, 3.0, 1.0], [2.0, 4.0, 1.0, 7.0]])  # the second column depends on the first
    factor = triangular(late)
    assert factor[1, 1] == 0.0 and factor[1, 2] > 0.0
    np.testing.assert_allclose(factor, triangular(turn @ late), rtol=1e-14)


@given(st.integers(0, 2**32 - 1))
def test_one_row_is_its_own_factor_bit_for_bit(seed):
    row, _ = batch(seed, 1, 9)
    factor = triangular(row)
    assert (factor * np.sign(row[0, 0])).tobytes() == row.tobytes()
    assert (factor.T @ factor).tobytes() == (row.T @ row).tobytes()


def test_few_rows_are_factored_and_many_are_dense():
    assert few(b=5, d=6).is_factored and few(b=5, d=6).factor.shape == (5, 6)
    assert not few(b=6, d=6).is_factored and few(b=6, d=6).factor is None
    rows, labels = batch(0, 2, 6)
    assert not Summary.of(rows, labels, 3, factored=False).is_factored
    with pytest.raises(InputError, match="features must be at most d = 6 rows of a factored summary"):
        Summary.of(*batch(0, 7, 6), 3, factored=True)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_in_the_process_of_its_rows_the_gram_is_theirs_bit_for_bit(seed, b):
    rows, labels = batch(seed, b, 6)
    made, dense = (Summary.of(rows, labels, 3, factored=form) for form in (None, False))
    assert made.gram.tobytes() == dense.gram.tobytes()
    both = (made - few(1)) + few(2)
    wanted = (dense.gram - few(1).gram) + few(2).gram
    assert both.gram.tobytes() == wanted.tobytes()


def test_a_summary_does_not_follow_later_changes_of_the_rows():
    rows, labels = batch(0, 2, 6)
    made, was = Summary.of(rows, labels, 3), rows.copy()
    rows[:] = 7.0
    np.testing.assert_array_equal(made.gram, was.T @ was)
    with pytest.raises(AttributeError):
        made.moment = rows
    with pytest.raises(ValueError, match="read-only"):
        made.factor[0, 0] = 1.0


@pytest.fixture(params=["small", "large"])
def size(request, monkeypatch):
    """Play both: a gram that is kept once it is written out, and one that is not."""
    if request.param == "large":
        monkeypatch.setattr(grams, "KEPT", 0)


@pytest.mark.usefixtures("size")
def test_arithmetic_is_that_of_dense_grams():
    a, b = few(1, 2, 8), few(2, 1, 8)
    da, db = (Summary(s.gram, s.moment) for s in (a, b))
    for low, dense in ((a + b, da + db), (a - b, da - db), (-a, -da), (a - b - a, da - db - da), (a - da, da - da)):
        np.testing.assert_allclose(low.gram, dense.gram, rtol=0, atol=1e-14)
        np.testing.assert_array_equal(low.moment, dense.moment)
        assert low.trace == pytest.approx(dense.trace, abs=1e-14)
        assert low.gram_norm == pytest.approx(dense.gram_norm, abs=1e-7)
        assert low.magnitudes[0] >= 0.999999 * dense.gram_norm
        np.testing.assert_allclose(low.diagonal(), np.diag(dense.gram), atol=1e-14)
        right = np.arange(16.0).reshape(8, 2)
        np.testing.assert_allclose(low.times(right), dense.gram @ right, atol=1e-12)
        np.testing.assert_allclose(low.band(slice(2, 5)), dense.gram[2:5], atol=1e-14)
    assert (a + b).factor.shape == (3, 8) and (a - b).signs.tolist() == [1, 1, -1]
    assert a.is_square and (a + b).is_square and not (a - b).is_square and not da.is_square
    assert (a - a).is_zero and (a + -a).is_zero and (a - a).gram_is_zero
    assert (a - few(1, 2, 8)).gram_is_zero  # another object with the same numbers
    assert a + Summary.zeros(8, 3) == a
    assert not (a + few(3, 6, 8)).is_factored  # full rank


@pytest.mark.usefixtures("size")
def test_a_moment_only_pair_has_no_net_gram_and_is_never_written_out():
    a = few(1, 2, 8)
    net = Update(a, a.with_moment(-a.moment)).net
    assert net.gram_is_zero and net.factor.shape == (0, 8)
    assert a.shares_gram(a.with_moment(-a.moment))


def test_a_long_running_sum_is_no_deep_tree():
    total = Summary.zeros(2000, 1)
    for i in range(1500):
        row = np.zeros((1, 2000))
        row[0, i] = 1.0
        total = total + Summary.of(row, [0], 1)
    assert total.trace == 1500 and total.factor.shape == (1500, 2000)
    small = Summary.zeros(600, 1)
    for i in range(590):
        row = np.zeros((1, 600))
        row[0, i] = 1.0
        small = small + Summary.of(row, [0], 1)
    np.testing.assert_array_equal(np.diag(small.gram), [1.0] * 590 + [0.0] * 10)


def test_what_a_large_sum_takes_back_is_gone_from_its_factor(monkeypatch):
    monkeypatch.setattr(grams, "KEPT", 0)
    a, b = few(1, 2, 8), few(2, 1, 8)
    assert (a + b - a).factor.tolist() == b.factor.tolist()


def test_pickles_hold_the_factor_and_never_the_rows():
    rows, labels = batch(0, 2, 6)
    made = Summary.of(rows, labels, 3)
    again = pickle.loads(pickle.dumps(made))
    assert rows[1].tobytes() in pickle.dumps(rows)
    assert rows[1].tobytes() not in pickle.dumps(made)
    assert again == made and again.gram.tobytes() == made.gram.tobytes()
    for one in ((made - few(3)), -made):
        assert pickle.loads(pickle.dumps(one)).gram.tobytes() == one.gram.tobytes()


BAD = {
    "shape": (np.ones(3), np.ones((3, 1)), None, "factor must be a two-dimensional array"),
    "dtype": (np.ones((1, 3), np.float32), np.ones((3, 1)), None, "factor must be a float64 array"),
    "no columns": (np.ones((0, 0)), np.ones((0, 1)), None, "factor must be a matrix of at least 1 column"),
    "too many rows": (np.ones((4, 3)), np.ones((3, 1)), None, r"at most as many rows; got shape \(4, 3\)"),
    "nan": (np.array([[1.0, np.nan]]), np.ones((2, 1)), None, r"factor must be finite everywhere; got nan at \(0, 1\)"),
    "overflow": (np.full((1, 2), 1e200), np.ones((2, 1)), None, "gram must be finite everywhere"),
    "moment": (np.ones((1, 3)), np.ones((2, 1)), None, "moment must be a two-dimensional array of shape 3 x any"),
    "no class": (np.ones((1, 3)), np.ones((3, 0)), None, "moment must be a matrix of at least one class"),
    "signs": (np.ones((1, 3)), np.ones((3, 1)), [2.0], "signs must be 1 or -1 for each of 1 rows"),
    "few signs": (np.ones((2, 3)), np.ones((3, 1)), [1.0], "signs must be 1 or -1 for each of 2 rows"),
    "words for signs": (np.ones((2, 3)), np.ones((3, 1)), "ab", "signs must be 1 or -1 for each of 2 rows; got 'ab'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_factors_say_what_is_wrong(name):
    factor, moment, signs, text = BAD[name]
    with pytest.raises(InputError, match=text):
        Summary.factored(factor, moment, signs)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(4, 9))
def test_the_wire_carries_factors_bit_for_bit(seed, b, d):
    sent = Update(few(seed, b, d), few(seed + 1, b, d) - few(seed + 2, 1, d) if b < 3 else few(seed, d, d))
    data = encode_update(sent, gamma=0.5)
    got = decode_update(data, d=d, c=3, gamma=0.5)
    assert got == sent
    for mine, theirs in ((sent.add, got.add), (sent.delete, got.delete)):
        assert mine.is_factored == theirs.is_factored
        if mine.is_factored:
            assert mine.factor.tobytes() == theirs.factor.tobytes() and mine.signs.tolist() == theirs.signs.tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_what_was_sent_is_what_comes_out_of_the_wire_bit_for_bit(seed, b):
    update = Update(few(seed, b, 7), few(seed + 1, b, 7) + few(seed + 2, 1, 7))
    got = decode_update(encode_update(update))
    for mine, theirs in ((update.sent().add, got.add), (update.sent().delete, got.delete)):
        assert mine.gram.tobytes() == theirs.gram.tobytes() and mine.moment.tobytes() == theirs.moment.tobytes()
    dense = Summary(update.add.gram, update.add.moment)
    assert dense.sent() is dense


def forged(**tensors):
    data = encode_update(Update(few(), few(1)))
    header = {"format": "exhume", "version": "3", "kind": "update", "d": "6", "c": "3", "dtype": "float64"}
    named = load(data) | {name.replace("__", "."): value for name, value in tensors.items()}
    return save({name: value for name, value in named.items() if value is not None}, metadata=header)


@pytest.mark.parametrize(
    ("tensors", "text"),
    [
        ({"add__factor": np.full((2, 6), np.inf)}, "factor must be finite"),
        ({"add__factor": np.ones((7, 6))}, "at most as many rows"),
        ({"add__factor": np.ones((2, 5))}, "moment must be"),
        ({"add__factor": np.ones((2, 6), np.float32)}, "factor must be a float64 array"),
        ({"add__gram": np.eye(6)}, "update must be the tensors add.factor"),
        ({"add__signs": np.array([1.0, 1.0])}, "add.signs must be of float64 with a minus, or left out"),
        ({"add__signs": np.array([1.0, -3.0])}, "signs must be 1 or -1"),
        ({"add__factor": None}, "update must be the tensors add.gram"),
        ({"add__factor": None, "add__gram": np.eye(6), "add__signs": -np.ones(1)}, "update must be the tensors"),
    ],
)
def test_bad_factors_on_the_wire_are_refused(tensors, text):
    decode_update(forged())
    with pytest.raises(WireError, match=text):
        decode_update(forged(**tensors))


@pytest.mark.parametrize(("d", "c", "most"), [(512, 10, 90_000), (10_000, 10, 1_700_000)])
def test_one_record_is_a_small_message_at_every_size(d, c, most):
    rng = np.random.default_rng(0)
    tracemalloc.start()
    data = encode_update(Update.deleting(Summary.of(rng.random((1, d)), [3], c)))
    decode_update(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 8 * d * (2 * c + 1) < len(data) < most  # one row of d and two moments
    assert peak < 12 * len(data)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_over_the_wire_the_head_is_the_same_up_to_the_roundoff_of_the_factor(seed):
    d, c, gamma = 12, 3, 0.1
    here, there = (Server(Ledger.zeros(d, c, gamma)) for _ in range(2))
    for i in range(4):
        update = Update.adding(Summary.of(*batch(seed + i, 3, d), c))
        here.submit(update, "a")
        there.submit(decode_update(encode_update(update)), "a")
    A = here.ledger.summary.gram + gamma * np.eye(d)
    allowed = 100 * 9 * U * np.trace(A) / np.linalg.eigvalsh(A)[0]
    gap = np.linalg.norm(here.head().weights - there.head().weights)
    assert gap <= allowed * np.linalg.norm(here.head().weights)


class Wired:
    """A server behind the wire."""

    def __init__(self, server):
        self.server, self.shape, self.grid = server, server.shape, server.grid

    def submit(self, update, client):
        return self.server.submit(decode_update(encode_update(update)), client)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
@settings(max_examples=25)
def test_on_a_grid_heads_are_bitwise_equal_over_the_wire_too(seed, b):
    d, c = 8, 3
    never, seen = (Server(Ledger.zeros(d, c, 0.5, grid=2.0**-10)) for _ in range(2))
    keep, gone = batch(seed, 3, d), batch(seed + 1, b, d)
    Client(never, "a").add(*keep)
    client = Client(Wired(seen), "a")
    assert client.add(*gone).accepted and client.add(*keep).accepted
    for row, label in zip(*gone, strict=True):  # single rows go as factors
        assert client.delete(row[None], np.array([label])).accepted
    assert seen.head().weights.tobytes() == never.head().weights.tobytes()
    assert seen.ledger.summary.gram.tobytes() == never.ledger.summary.gram.tobytes()


def test_a_factor_between_grid_points_is_refused():
    server = Server(Ledger.zeros(6, 3, 0.5, grid=2.0**-4))
    on = Summary.factored(np.full((1, 6), 0.25), np.full((6, 3), 0.25))
    off = Summary.factored(np.full((1, 6), 0.3), np.full((6, 3), 0.25))
    huge = Summary.factored(np.full((1, 6), 2.0**23), np.full((6, 3), 0.25))
    assert server.submit(Update.adding(on), "a").accepted
    for bad in (off, huge):
        assert server.submit(Update.adding(bad), "a").rule == "ledger"
