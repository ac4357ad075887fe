"""Records: what goes out comes back bit for bit, and nothing that a sender claims is believed."""

import io
import zipfile

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import exhume as ex
from exhume.errors import WireError
from exhume.flower.local import carried
from exhume.flower.records import News, as_array, news_of, news_records, update_of, update_records
from exhume.protocol.message import count, itemise
from exhume.protocol.summary import Summary, Update

pytestmark = pytest.mark.flower

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)


def bits(array):
    return array.astype("<f8").tobytes()


@given(hnp.arrays("<f8", (4, 3), elements=FINITE))
def test_an_array_comes_back_bit_for_bit(values):
    found = as_array(Array(values), "x", "<f8", (4, 3))
    assert bits(found) == bits(values)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.sampled_from([1, 2, 5]))
def test_an_update_comes_back_bit_for_bit(seed, add, delete, rows):
    rng = np.random.default_rng(seed)
    sides = [
        Summary.of(rng.standard_normal((rows, 4)), rng.integers(0, 3, rows), 3) if there else Summary.zeros(4, 3)
        for there in (add, delete)
    ]
    sent = Update(*sides, pairs=int(rng.integers(1, 9)))
    found = update_of(update_records(sent, 7, dense=True), 7, d=4, c=3)
    assert found.pairs == sent.pairs
    for side in ("add", "delete"):
        for part in ("gram", "moment"):
            assert bits(getattr(getattr(found, side), part)) == bits(getattr(getattr(sent, side), part))


@given(st.integers(0, 2**32 - 1))
def test_few_rows_travel_as_their_factor_bit_for_bit(seed):
    rng = np.random.default_rng(seed)
    some, gone = (Summary.of(rng.standard_normal((2, 9)), rng.integers(0, 3, 2), 3) for _ in range(2))
    sent = Update(some, some - gone)
    records = update_records(sent, 1)
    assert {*records["update"]} == {
        "add.factor", "add.moment", "delete.factor", "delete.signs", "delete.moment",
    }  # fmt: skip
    found = update_of(records, 1, d=9, c=3)
    for side in ("add", "delete"):
        ours, theirs = getattr(sent, side), getattr(found, side)
        assert bits(theirs.factor) == bits(ours.factor) and bits(theirs.signs) == bits(ours.signs)
        # Two sums of the same products in another order: each entry is off by at most a few units in the last place.
        assert np.allclose(
            theirs.gram, ours.gram, rtol=0, atol=64 * np.finfo(float).eps * np.abs(ours.gram).max() + 1e-14
        )


def test_rows_counts_and_tags_travel_too():
    rng = np.random.default_rng(1)
    sent = itemise(3, add=(rng.standard_normal((5, 4)), [0, 1, 2, 0, 1]), delete=(rng.standard_normal((2, 4)), [1, 1]))
    sent = ex.protocol.message.replace(count(sent, (2, 2, 1), (0, 2, 0)), counter=3, tag=b"\x00\xff")
    found = update_of(update_records(sent, 1), 1, d=4, c=3)
    assert found.added.digest() == sent.added.digest() and found.deleted.digest() == sent.deleted.digest()
    assert (found.added_counts, found.deleted_counts) == ((2, 2, 1), (0, 2, 0))
    assert (found.counter, found.tag) == (3, b"\x00\xff")


def test_nothing_is_an_answer():
    assert update_of(update_records(None, 2), 2, d=4, c=3) is None


@pytest.mark.parametrize("precision", ["float64", "float32", "float16", "bfloat16", "20bits"])
def test_a_head_travels_in_its_own_format(precision):
    rounded = ex.protocol.head.round_to(np.random.default_rng(0).standard_normal((6, 2)), precision)
    news = News(4, ex.Head(rounded, precision, 9), True, "because")
    found = news_of(news_records(news), d=6, c=2)
    assert found.head == news.head and (found.number, found.taken, found.refused) == (4, True, "because")


def test_flower_carries_every_bit():
    # A negative zero, a subnormal and the largest number survive Flower's own serialisation.
    from flwr.app import Message

    from exhume.flower.local import LocalGrid

    LocalGrid({})
    odd = np.array([[-0.0, 5e-324], [np.finfo(float).max, 1 / 3]])
    message = Message(RecordDict({"x": ArrayRecord({"a": Array(odd)})}), 5, "train")
    arrived, size = carried(message)
    assert bits(as_array(arrived.content["x"]["a"], "a", "<f8", (2, 2))) == bits(odd)
    assert size > odd.nbytes


def claimed(array, **claims):
    made = Array(array)
    for name, value in claims.items():
        setattr(made, name, value)
    return made


def header(text):
    body = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


GOOD = np.arange(12.0).reshape(4, 3)
HUGE = header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }")


def zipped():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("x.npy", Array(GOOD).data)
    return held.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(claimed(GOOD, shape=(3, 4)), id="claims another shape"),
        pytest.param(claimed(GOOD, dtype="float32"), id="claims another dtype"),
        pytest.param(claimed(GOOD.astype("<f4"), dtype="float64"), id="is float32"),
        pytest.param(claimed(GOOD.astype(">f8"), dtype="float64"), id="has its bytes the other way round"),
        pytest.param(claimed(GOOD.T.copy(), shape=(4, 3)), id="is transposed"),
        pytest.param(claimed(np.asfortranarray(GOOD)), id="is in Fortran order"),
        pytest.param(claimed(GOOD, stype="pickle"), id="is said to be a pickle"),
        pytest.param(claimed(GOOD, data=Array(GOOD).data[:-1]), id="is one byte short"),
        pytest.param(claimed(GOOD, data=Array(GOOD).data + b"\0"), id="is one byte long"),
        pytest.param(claimed(GOOD, data=HUGE), id="claims eight terabytes"),
        pytest.param(claimed(GOOD, data=b"\x93NUMPY\x01\x00\xff\xff"), id="has a header beyond its end"),
        pytest.param(claimed(GOOD, data=header("__import__('os')")), id="has code for a header"),
        pytest.param(claimed(GOOD, data=header("{'descr': '<f8', 'shape': (4, 3)}")), id="has half a header"),
        pytest.param(claimed(GOOD, data=header("{'descr': '<f8', 'fortran_order': False, 'shape': 4}")), id="no tuple"),
        pytest.param(claimed(GOOD, data=zipped()), id="is a zip file"),
        pytest.param(claimed(GOOD, data=b""), id="is empty"),
    ],
)
def test_what_an_array_claims_is_not_believed(array):
    with pytest.raises(WireError):
        as_array(array, "x", "<f8", (4, 3))


def with_arrays(**arrays):
    sent = update_records(Update.adding(Summary.of(np.eye(4)[:2], [0, 1], 3)), 1, dense=True)
    record = dict(sent["update"].items())
    record |= {name.replace("_", "."): Array(array) for name, array in arrays.items()}
    sent["update"] = ArrayRecord({name: array for name, array in record.items() if array is not None})
    return sent


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"add_gram": np.full((4, 4), np.nan)}, "finite"),
        ({"add_gram": np.triu(np.ones((4, 4)))}, "symmetric"),
        ({"add_moment": np.full((4, 3), np.inf)}, "finite"),
        ({"add_gram": np.eye(5)}, "4 x 4"),
        ({"add_moment": np.ones((4, 2))}, "4 x 3"),
        ({"delete_gram": np.eye(4)}, "a gram or its factor, with the moment"),
        ({"add_factor": np.eye(4)}, "a gram or its factor, with the moment"),
        ({"delete_factor": np.ones((5, 4)), "delete_moment": np.ones((4, 3))}, "at most as many rows"),
        ({"delete_factor": np.ones((2, 4)), "delete_moment": np.ones((4, 3)), "delete_signs": np.zeros(2)}, "1 or -1"),
        ({"delete_factor": np.full((2, 4), np.inf), "delete_moment": np.ones((4, 3))}, "finite"),
        ({"add_other": np.eye(4)}, "update must be of"),
        ({"add_features": np.eye(4)}, None),
    ],
)
def test_a_decoded_update_is_checked_like_any_other_input(arrays, says):
    sent = with_arrays(**arrays)
    if says is None:  # features without labels count only in a message with attachments
        sent["exhume"] = ConfigRecord(dict(sent["exhume"]) | {"counter": 0, "tag": b""})
        says = "features with their labels"
    with pytest.raises(WireError, match=says):
        update_of(sent, 1, d=4, c=3)


@pytest.mark.parametrize(
    "told",
    [
        {"version": 2},
        {"version": True},
        {"kind": "head"},
        {"round": 2},
        {"round": -1},
        {"round": 1.0},
        {"pairs": 0},
        {"change": 1},
    ],
    ids=str,
)
def test_the_rest_of_a_message_is_checked_too(told):
    sent = with_arrays()
    sent["exhume"] = ConfigRecord(dict(sent["exhume"]) | told)
    with pytest.raises(WireError):
        update_of(sent, 1, d=4, c=3)


def test_another_apps_message_is_refused():
    with pytest.raises(WireError, match="configuration record"):
        update_of(RecordDict({"arrays": ArrayRecord([np.eye(4)])}), 1, d=4, c=3)
    sent = with_arrays()
    sent["update"] = ConfigRecord({})
    with pytest.raises(WireError, match="array record"):
        update_of(sent, 1, d=4, c=3)
