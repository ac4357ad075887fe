import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhume import Summary, Update
from exhume.errors import InputError


def summary(seed=0, d=4, c=3, n=9):
    rng = np.random.default_rng(seed)
    return Summary.of(rng.normal(size=(n, d)), rng.integers(0, c, n), c)


def test_of_is_gram_and_moment_written_out():
    made = Summary.of([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1, 0, 1], 2)
    assert made.gram.tolist() == [[35.0, 44.0], [44.0, 56.0]]
    assert made.moment.tolist() == [[3.0, 6.0], [4.0, 8.0]]


def test_blocks_of_rows_sum_up_to_the_whole():
    rng = np.random.default_rng(0)
    rows, labels = rng.integers(-8, 9, (50, 7)), rng.integers(0, 3, 50)
    parts = [(rows[a:b], labels[a:b]) for a, b in ((0, 1), (1, 20), (20, 50))]
    made, whole = Summary.of_blocks(iter(parts), 3), Summary.of(rows, labels, 3)
    assert np.array_equal(made.gram, whole.gram) and np.array_equal(made.moment, whole.moment)  # integers are exact
    assert not made.gram.flags.writeable and made.gram.flags.c_contiguous
    large = rng.standard_normal((4, 1030))
    assert np.allclose(Summary.of_blocks([(large, [0] * 4)], 1).gram, large.T @ large, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("blocks", "classes", "message"),
    [
        ([], 2, "blocks must be at least one block of rows; got none"),
        ([([[1.0]], [0])], 0, "classes must be at least 1"),
        ([([[1.0]], [2])], 2, "labels must be in 0 to 1"),
        ([([[1.0, 2.0]], [0]), ([[1.0]], [0])], 2, "features must be a two-dimensional array of shape rows x 2"),
        ([([[1.0, np.inf]], [0])], 2, "features must be finite"),
    ],
)
def test_bad_blocks_say_what_is_wrong(blocks, classes, message):
    with pytest.raises(InputError, match=message):
        Summary.of_blocks(blocks, classes)


@given(st.integers(0, 2**32 - 1))
def test_arithmetic(seed):
    a, b = summary(seed), summary(seed + 1)
    assert a + b == Summary(a.gram + b.gram, a.moment + b.moment)
    assert (a - a).is_zero and (a + -a).is_zero
    assert Summary.zeros(a.d, a.c) - a == -a
    assert a + Summary.zeros(a.d, a.c) == a


def test_is_immutable_and_owns_its_values():
    gram, moment = np.eye(2), np.ones((2, 1))
    made = Summary(gram, moment)
    gram[0, 0] = 9
    assert made.gram[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        made.gram[0, 0] = 2
    with pytest.raises(AttributeError):
        made.gram = gram


def test_a_read_only_view_of_writeable_memory_is_copied():
    gram = np.eye(2)
    view = gram[:]
    view.flags.writeable = False
    made = Summary(view, np.ones((2, 1)))
    gram[0, 0] = 9
    assert made.gram[0, 0] == 1


BAD = {
    "gram dtype": (np.eye(2, dtype=np.float32), np.ones((2, 1)), "gram must be a float64 array; got dtype float32"),
    "gram shape": (np.ones((2, 3)), np.ones((2, 1)), r"gram must be a square matrix .*shape \(2, 3\)"),
    "gram empty": (np.ones((0, 0)), np.ones((0, 1)), "gram must be a square matrix of at least 1 x 1"),
    "gram nan": (np.array([[1.0, np.nan], [np.nan, 1.0]]), np.ones((2, 1)), r"gram .*finite.*nan at \(0, 1\)"),
    "gram inf": (np.diag([1.0, np.inf]), np.ones((2, 1)), r"gram must be finite everywhere; got inf at \(1, 1\)"),
    "gram asymmetric": (
        np.array([[1.0, 0.5], [0.4, 1.0]]),
        np.ones((2, 1)),
        "gram must be symmetric .*asymmetry of 0.1",
    ),
    "moment shape": (np.eye(2), np.ones((3, 1)), r"moment must be .*2 x any; got shape \(3, 1\)"),
    "moment 1-d": (np.eye(2), np.ones(2), r"moment must be a two-dimensional"),
    "moment no class": (np.eye(2), np.ones((2, 0)), "moment must be a matrix of at least one class column"),
    "moment inf": (np.eye(2), np.array([[1.0], [-np.inf]]), r"moment must be finite everywhere; got -inf at \(1, 0\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_matrices_say_what_is_wrong(name):
    gram, moment, message = BAD[name]
    with pytest.raises(InputError, match=message):
        Summary(gram, moment)


def test_asymmetry_in_a_far_tile_is_found_and_roundoff_is_not():
    d = 300
    gram = np.eye(d)
    gram[290, 3] = gram[3, 290] = 0.25
    gram[290, 3] = np.nextafter(0.25, 1)
    Summary(gram, np.ones((d, 1)))
    gram[290, 3] = 0.25 + 1e-6
    with pytest.raises(InputError, match="asymmetry of 1e-06"):
        Summary(gram, np.ones((d, 1)))


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (np.empty((0, 2)), [], "features must be at least one row"),
        ([[1.0, 2.0]], [3], "labels must be in 0 to 2; got labels from 3 to 3"),
        ([[1.0, 2.0]], [-1], "labels must be in 0 to 2"),
        ([[1.0, 2.0]], [0.5], "labels must be integer class indices"),
        ([[1.0, 2.0]], [0, 1], "labels must be a one-dimensional array of 1 labels"),
        ([1.0, 2.0], [0], "features must be a two-dimensional array"),
        ([["a", "b"]], [0], "features must be a real numeric array"),
        ([[1.0, np.nan]], [0], "features must be finite everywhere"),
    ],
)
def test_bad_rows_say_what_is_wrong(features, labels, message):
    with pytest.raises(InputError, match=message):
        Summary.of(features, labels, 3)


@pytest.mark.parametrize("gram", [np.eye(4), np.zeros((4, 4))])
@pytest.mark.parametrize(("one", "other"), [((4, 1), (4, 3)), ((4, 3), (4, 1)), ((1, 1), (4, 1)), ((4, 3), (1, 3))])
def test_sums_never_broadcast_one_class_or_one_feature(gram, one, other):
    a, b = (Summary(gram[:d, :d].copy(), np.ones((d, c))) for d, c in (one, other))
    for both in (lambda: a + b, lambda: a - b, lambda: a.with_moment(b.moment)):
        with pytest.raises(InputError):
            both()


def test_one_class_is_enough():
    made = Summary.of([[1.0, 2.0]], [0], 1)
    assert (made.d, made.c) == (2, 1)
    assert (made + Summary.zeros(2, 1)) == made
    for classes in (0, -1):
        with pytest.raises(InputError, match="classes must be at least 1"):
            Summary.of([[1.0, 2.0]], [0], classes)
        with pytest.raises(InputError, match="c must be at least 1"):
            Summary.zeros(2, classes)


def test_a_copy_is_as_immutable_as_the_original():
    made = Update(summary(1), summary(2))
    assert copy.deepcopy(made) is made and copy.deepcopy(made.add) is made.add
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    with pytest.raises(ValueError, match="read-only"):
        again.add.gram[0, 0] = 1.0


def test_update_net_and_magnitude():
    a, b = summary(1), summary(2)
    update = Update(a, b)
    assert update.net == a - b
    four = np.concatenate([m.ravel() for m in (a.gram, a.moment, b.gram, b.moment)])
    assert update.magnitude == pytest.approx(np.linalg.norm(four), rel=1e-14)
    assert update.undo().net == b - a


def test_update_sides_must_match():
    with pytest.raises(InputError, match="delete must be of the same size as add"):
        Update(summary(d=4), summary(d=5))
    with pytest.raises(InputError, match="pairs must be a whole number of at least 1"):
        Update(summary(), summary(), 0)


@pytest.mark.parametrize("pairs", [1.0, True, float("nan"), "2", np.float32(2), 2**63, np.uint64(2**63)])
def test_what_is_no_count_of_pairs_is_refused_where_the_update_is_made(pairs):
    """One such message stopped a whole round, another every later save of the server."""
    with pytest.raises(InputError, match=r"pairs must be (a whole number of at least 1|at most 9223372036854775807)"):
        Update(summary(), summary(), pairs)


def test_a_count_of_pairs_is_a_plain_number():
    made = Update(summary(), summary(), np.int64(3))
    assert made.pairs == 3 and type(made.pairs) is int


def test_tiny_values_are_not_taken_for_zero():
    tiny = Summary(np.full((1, 1), 5e-324), np.zeros((1, 1)))
    assert not tiny.is_zero and not tiny.gram_is_zero


def test_a_moment_alone_is_added_and_taken_away():
    a, change = summary(), Summary.zeros(4, 3).with_moment(np.arange(12.0).reshape(4, 3))
    np.testing.assert_array_equal((a + change).moment, a.moment + change.moment)
    np.testing.assert_array_equal((a - change).moment, a.moment - change.moment)
    np.testing.assert_array_equal((a - change).gram, a.gram)


def test_pairs_are_summed_and_come_back():
    a, b = Update(summary(0), summary(1), pairs=2), Update(summary(2), summary(3), pairs=5)
    assert (a + b).pairs == 7
    assert a.undo().pairs == 2
    assert a.undo().undo() == a
