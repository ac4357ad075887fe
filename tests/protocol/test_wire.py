import contextlib
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from exhume import Head, Summary, Update
from exhume.errors import WireError, shown
from exhume.protocol import round_to
from exhume.protocol.wire import decode_head, decode_update, encode_head, encode_update


def update(seed=0, d=4, c=3):
    rng = np.random.default_rng(seed)
    one, two = (Summary.of(rng.normal(size=(6, d)), rng.integers(0, c, 6), c) for _ in range(2))
    return Update(one, two, pairs=5)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4))
def test_update_round_trip_is_bitwise(seed, d, c):
    sent = update(seed, d, c)
    got = decode_update(encode_update(sent, gamma=1e-3), d=d, c=c, gamma=1e-3)
    for side in ("add", "delete"):
        for part in ("gram", "moment"):
            a, b = getattr(getattr(sent, side), part), getattr(getattr(got, side), part)
            assert a.tobytes() == b.tobytes()
    assert got.pairs == 5


@pytest.mark.parametrize("precision", ["float64", "float32", "float16", "bfloat16", "20bits"])
@pytest.mark.parametrize("serial", [None, 7])
def test_head_round_trip_is_bitwise(precision, serial):
    weights = round_to(np.random.default_rng(0).normal(size=(5, 3)), precision)
    sent = Head(weights, precision, serial)
    got = decode_head(encode_head(sent, gamma=0.1), d=5, c=3, gamma=0.1)
    assert got == sent
    assert got.weights.tobytes() == sent.weights.tobytes()


def test_float32_heads_are_sent_in_float32():
    wide, narrow = (len(encode_head(Head(np.zeros((512, 10)), p))) for p in ("float64", "float32"))
    assert wide - narrow == 512 * 10 * 4


def test_gamma_may_be_left_unstated_but_not_contradicted():
    data = encode_update(update())
    decode_update(data, gamma=0.5)
    with pytest.raises(WireError, match=r"gamma must be 0.5; got 0.25"):
        decode_update(encode_update(update(), gamma=0.25), gamma=0.5)


def header_of(data):
    size = struct.unpack_from("<Q", data)[0]
    return json.loads(data[8 : 8 + size])["__metadata__"]


def forged(change, tensors=None):
    header = header_of(encode_update(update())) | change
    u = update()
    tensors = tensors or {
        "add.gram": u.add.gram,
        "add.moment": u.add.moment,
        "delete.gram": u.delete.gram,
        "delete.moment": u.delete.moment,
    }
    return save(tensors, metadata={k: v for k, v in header.items() if v is not None})


BAD = {
    "empty": (b"", "message"),
    "pickle": (b"\x80\x04\x95" + b"x" * 60, "message"),
    "huge header": (struct.pack("<Q", 2**60) + b"{}", "message"),
    "no metadata": (save({"a": np.zeros(1)}), "message"),
    "other format": (forged({"format": "else"}), "format must be 'exhume'"),
    "other version": (forged({"version": "4"}), "version must be '1' or '2' or '3'; got '4'"),
    "version 2 without attachments": (
        forged({"version": "2"}),
        "version must be .*'2' with attachments, else '1'; got '2'",
    ),
    "attachments in version 1": (forged({"tag": "00"}), "version must be .*'2' with attachments, else '1'; got '1'"),
    "version 3 without a factor": (forged({"version": "3"}), "version must be '3' with a factor, .*; got '3'"),
    "unknown field": (forged({"colour": "red"}), "header must be of .*; got colour"),
    "another number format": (forged({"dtype": "float32"}), "dtype must be 'float64'; got 'float32'"),
    "no number format": (forged({"dtype": None}), "dtype must be 'float64'; got 'None'"),
    "a head's field": (forged({"serial": "1"}), "header must be of .*; got serial"),
    "loose gamma": (forged({"gamma": "1e-03"}), "gamma must be a finite number above 0 as Python writes it"),
    "negative gamma": (forged({"gamma": "-1.0"}), "gamma must be a finite number above 0"),
    "infinite gamma": (forged({"gamma": "inf"}), "gamma must be a finite number above 0"),
    "gamma in words": (forged({"gamma": "small"}), "gamma must be a finite number above 0 .*; got 'small'"),
    "not bytes": ("text", "message must be bytes, bytearray or memoryview; got str"),
    "no pairs": (forged({"pairs": "0"}), "pairs must be a whole number from 1"),
    "loose pairs": (forged({"pairs": " 1_0"}), "pairs must be a whole number from 1"),
    "too many pairs": (forged({"pairs": "9" * 30}), "pairs must be a whole number from 1"),
    "other kind": (encode_head(Head(np.zeros((4, 3)))), "kind must be 'update'; got 'head'"),
    "wrong d": (forged({"d": "9"}), "d must be 4; got 9"),
    "missing c": (forged({"c": None}), "c must be 3; got nothing"),
    "missing tensor": (forged({}, {"add.gram": np.eye(4)}), "update must be the tensors add.gram"),
    "nan": (
        forged(
            {},
            {
                "add.gram": np.full((4, 4), np.nan),
                "add.moment": np.zeros((4, 3)),
                "delete.gram": np.zeros((4, 4)),
                "delete.moment": np.zeros((4, 3)),
            },
        ),
        "gram must be finite everywhere",
    ),
    "truncated": (encode_update(update())[:-8], "message"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_bytes_are_refused(name):
    data, message = BAD[name]
    with pytest.raises(WireError, match=message):
        decode_update(data, d=4, c=3)


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_other_kinds_of_bytes_are_bytes(kind):
    data, head = encode_update(update(), gamma=0.5), encode_head(Head(np.eye(4), serial=3))
    assert decode_update(kind(data), d=4, c=3, gamma=0.5) == update()
    assert decode_head(kind(head)) == Head(np.eye(4), serial=3)
    with pytest.raises(WireError):
        decode_update(kind(data)[:-8])


def forged_head(change):
    header = header_of(encode_head(Head(np.eye(4), serial=3))) | change
    return save({"weights": np.eye(4)}, metadata=header)


@pytest.mark.parametrize("serial", ["", " 3", "+3", "3_0", "-3", "0", "3.0", "٣", "9" * 30, str(2**63)])
def test_a_serial_is_a_plain_whole_number(serial):
    with pytest.raises(WireError, match="serial must be a whole number from 1"):
        decode_head(forged_head({"serial": serial}))


@pytest.mark.parametrize("precision", ["", "float", "FLOAT64", "٢٠bits", "08bits", "1bits", "54bits", "float64 "])
def test_a_number_format_has_one_spelling(precision):
    with pytest.raises(WireError):
        decode_head(forged_head({"dtype": precision}))


@pytest.mark.parametrize("field", ["colour", "pairs", "counter", "tag", "Serial"])
def test_a_field_that_a_head_does_not_have_is_refused(field):
    with pytest.raises(WireError, match=f"header must be of .*; got {field}"):
        decode_head(forged_head({field: "1"}))


def test_a_name_that_comes_twice_and_a_value_that_is_no_text_are_refused():
    data = encode_head(Head(np.eye(4), serial=3))
    size = struct.unpack_from("<Q", data)[0]
    text = data[8 : 8 + size].decode()
    for old, new in (('"serial":"3"', '"serial":"3","serial":"4"'), ('"serial":"3"', '"serial":3')):
        assert old in text
        changed = text.replace(old, new).encode()
        with pytest.raises(WireError, match="message must be safetensors bytes"):
            decode_head(struct.pack("<Q", len(changed)) + changed + data[8 + size :])


@pytest.mark.parametrize("field", ["format", "version", "kind", "d", "gamma", "pairs", "dtype", "\x1b[2J\nfield"])
def test_what_a_sender_wrote_comes_back_short_and_in_one_line(field):
    nasty = "\x1b[31m\r\n\u202e" + "A" * 900_000
    with pytest.raises(WireError) as caught:
        decode_update(forged({field: nasty}), d=4, c=3)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()


@given(st.text(max_size=600))
def test_shown_text_is_one_short_line_that_starts_as_it_did(text):
    line = shown(text)
    assert line.isprintable() and len(line) < 10 * 300
    if text.isprintable() and len(text) <= 240:
        assert line == text
    if text.isprintable() and len(text) > 240:
        assert line.startswith(text[:180]) and f"({len(text)} characters)" in line and text[-60:] in line


@given(st.binary(max_size=200))
def test_random_bytes_never_escape_as_another_error(data):
    for decode in (decode_update, decode_head):
        with pytest.raises(WireError):
            decode(data)


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_flipped_header_byte_is_an_error_or_the_same_kind_of_update(position, value):
    data = bytearray(encode_update(update()))
    data[position % len(data)] = value
    with contextlib.suppress(WireError):
        assert (decode_update(bytes(data), d=4, c=3).d, 3) == (4, 3)


@pytest.mark.parametrize("name", ["format", "version", "kind", "d", "c"])
def test_a_header_that_leaves_something_out_is_refused(name):
    sent = encode_update(update())
    size = int.from_bytes(sent[:8], "little")
    header = json.loads(sent[8 : 8 + size])
    del header["__metadata__"][name]
    text = json.dumps(header).encode()
    with pytest.raises(WireError, match=name):
        decode_update(len(text).to_bytes(8, "little") + text + sent[8 + size :])
