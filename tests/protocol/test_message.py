"""Attachments: on the wire bit for bit, refused where they are malformed, made by clients, judged by rules."""

import contextlib
import json
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import load, save

from exhume import Client, Ledger, Server, Summary, Update
from exhume.defence.admission import AlgebraicOwnership, Ownership, Replay, SignedMessages, Signer, sign
from exhume.errors import InputError, WireError
from exhume.protocol import Batch, Message, count, itemise
from exhume.protocol.wire import decode_update, encode_update

D, C = 4, 3
KEYS = {name: name.encode() * 8 for name in ("alice", "bob", "mallory")}


def rows(seed=0, n=5, d=D, c=C):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 1.0, rng.integers(0, c, n)


def header_of(data):
    (size,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + size])["__metadata__"]


numbers = st.floats(-1e100, 1e100) | st.sampled_from([0.0, -0.0, 5e-324, 1e-300])


@st.composite
def messages(draw):
    d, c = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    few = st.integers(0, 2**63 - 1)

    def batch():
        n = draw(st.integers(1, 3))
        labels = draw(arrays(np.intp, n, elements=st.integers(0, c - 1)))
        return Batch(draw(arrays(np.float64, (n, d), elements=numbers)), labels)

    def counts():
        return tuple(draw(few) for _ in range(c))

    one, two = (Summary.of(*rows(seed, 3, d, c), c) for seed in (1, 2))
    return Message(
        one,
        two,
        draw(st.integers(1, 2**63 - 1)),
        counter=draw(few),
        tag=draw(st.binary(max_size=64)),
        added=batch() if draw(st.booleans()) else None,
        deleted=batch() if draw(st.booleans()) else None,
        added_counts=counts() if draw(st.booleans()) else None,
        deleted_counts=counts() if draw(st.booleans()) else None,
    )


@given(messages())
@settings(max_examples=150)
def test_attachments_come_over_the_wire_bit_for_bit(sent):
    data = encode_update(sent, gamma=0.5)
    got = decode_update(data, d=sent.d, c=sent.c, gamma=0.5)
    assert got == sent
    few = sent.d > 3  # three rows, sent as a factor
    assert header_of(data)["version"] == ("3" if few else "1" if sent.bare else "2")
    assert isinstance(got, Message) != sent.bare
    if not sent.bare:
        for name in ("counter", "tag", "added_counts", "deleted_counts"):
            assert getattr(got, name) == getattr(sent, name)
        for mine, theirs in ((sent.added, got.added), (sent.deleted, got.deleted)):
            assert (mine is None) == (theirs is None)
            if mine is not None:
                assert mine.features.tobytes() == theirs.features.tobytes()
                assert mine.labels.tobytes() == theirs.labels.tobytes() and theirs.labels.dtype == np.intp
                assert mine.digest() == theirs.digest()


@pytest.mark.parametrize(
    ("labels", "field"),
    [([1.5], "labels"), ([np.nan], "labels"), (["a"], "labels"), ([0, 1], "labels"), ([C], "labels")],
)
def test_rows_need_labels_that_are_classes(labels, field):
    for side in ("add", "delete"):
        with pytest.raises(InputError, match=f"^{field} must be"):
            itemise(C, **{side: (np.ones((1, 4)), labels)})


@pytest.mark.parametrize("features", [np.ones(4), [["a", "b"]], np.full((1, 4), np.nan), np.ones((0, 4))])
def test_rows_are_rows_of_numbers(features):
    with pytest.raises(InputError, match=r"^features must be"):
        itemise(C, add=(features, [0]))


def test_a_reader_that_knows_no_attachments_refuses_them_and_reads_plain_updates_as_ever():
    made = itemise(C, add=rows(), delete=rows(3))
    plain = encode_update(Update(made.add, made.delete))
    # All that a reader of version 1 looks at: the version must be its own, the tensors exactly four.
    assert header_of(plain) == {
        "format": "exhume", "version": "1", "kind": "update", "d": "4", "c": "3", "dtype": "float64", "pairs": "1",
    }  # fmt: skip
    assert len(load(plain)) == 4
    for message in (made, sign(Update(made.add, made.delete), "alice", 1, KEYS["alice"]), count(made)):
        assert header_of(encode_update(message))["version"] == "2"


WHOLE = sign(count(itemise(C, add=rows(1), delete=rows(2)), [1] * C, [2] * C), "alice", 7, KEYS["alice"])


def forged(header=(), **tensors):
    """Return the whole message with header fields and tensors changed, or left out where None."""
    data = encode_update(WHOLE)
    fields = {k: v for k, v in (header_of(data) | dict(header)).items() if v is not None}
    changed = {k.replace("__", "."): v for k, v in tensors.items()}
    return save({k: v for k, v in (load(data) | changed).items() if v is not None}, metadata=fields)


NAN = np.full((5, D), np.nan)
BAD = {
    "tag without digits": (forged({"tag": "xx"}), "tag must be 1 to 64 bytes"),
    "empty tag": (forged({"tag": ""}), "tag must be 1 to 64 bytes"),
    "odd tag": (forged({"tag": "abc"}), "tag must be 1 to 64 bytes"),
    "loose tag": (forged({"tag": "AB cd"}), "tag must be 1 to 64 bytes"),
    "long tag": (forged({"tag": "00" * 65}), "tag must be 1 to 64 bytes"),
    "counter of 0": (forged({"counter": "0"}), "counter must be a whole number from 1"),
    "negative counter": (forged({"counter": "-1"}), "counter must be a whole number from 1"),
    "counter in words": (forged({"counter": "one"}), "counter must be a whole number from 1"),
    "huge counter": (forged({"counter": str(2**63)}), "counter must be a whole number from 1"),
    "other digits": (forged({"counter": "\u0661"}), "counter must be a whole number from 1"),
    "unknown field": (forged({"priority": "1"}), "header must be of"),
    "unknown tensor": (forged(added__names=np.zeros(1)), "update must be the tensors"),
    "rows without labels": (forged(added__labels=None), "added must be features with their labels"),
    "labels without rows": (forged(deleted__features=None), "deleted must be features with their labels"),
    "float32 rows": (forged(added__features=np.zeros((5, D), np.float32)), "added.features must be of float64"),
    "float labels": (forged(added__labels=np.zeros(5)), "added.labels must be of int64"),
    "short labels": (forged(added__labels=np.zeros(4, np.int64)), "added labels must be"),
    "label beyond": (forged(added__labels=np.full(5, C)), "added labels must be in 0 to 2"),
    "label below": (forged(added__labels=np.full(5, -1)), "added labels must be in 0 to 2"),
    "nan rows": (forged(added__features=NAN), "added features must be finite"),
    "rows of another size": (forged(added__features=np.zeros((5, D + 1))), "added features must be"),
    "flat rows": (forged(added__features=np.zeros(5)), "added features must be"),
    "no rows": (forged(added__features=np.zeros((0, D)), added__labels=np.zeros(0, np.int64)), "at least one row"),
    "too few counts": (forged(added__counts=np.zeros(C - 1, np.int64)), "counts must be one count"),
    "negative counts": (forged(added__counts=np.full(C, -1)), "counts must be one count"),
    "float counts": (forged(added__counts=np.zeros(C)), "added.counts must be of int64"),
    "square counts": (forged(added__counts=np.zeros((C, 1), np.int64)), "added.counts must be one number per class"),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_attachments_are_refused(name):
    data, match = BAD[name]
    with pytest.raises(WireError, match=match):
        decode_update(data, d=D, c=C)


def told(message):
    """Return everything that a message says but its tag."""
    numbers = message.counter, message.pairs, message.added_counts, message.deleted_counts
    matrices = (getattr(getattr(message, s), m) + 0.0 for s in ("add", "delete") for m in ("gram", "moment"))
    return numbers, [m.tobytes() for m in matrices], message.added.digest(), message.deleted.digest()


@given(st.integers(0, 10**6), st.integers(0, 255))
@settings(max_examples=300)
def test_a_changed_byte_is_an_input_error_or_a_message_that_the_tag_tells(position, value):
    data = bytearray(encode_update(WHOLE))
    place = position % len(data)
    if data[place] == value:
        return
    data[place] = value
    with contextlib.suppress(InputError):
        got = decode_update(bytes(data), d=D, c=C)
        assert told(got) == told(WHOLE) or SignedMessages(KEYS).refuse(got, "alice") is not None


@pytest.mark.parametrize(
    "attached",
    [
        {"counter": -1},
        {"counter": 2**63},
        {"pairs": 2**63},
        {"tag": b"x" * 65},
        {"added_counts": (1, 2)},
        {"deleted_counts": (0, 0, -1)},
        {"added": Batch(np.ones((1, 1)), np.array([0]))},
        {"added": Batch(np.full((1, D), np.inf), np.array([0]))},
        {"deleted": Batch(np.ones((1, D)), np.array([C]))},
    ],
)
def test_a_message_is_well_formed_or_there_is_none(attached):
    made = itemise(C, add=rows())
    with pytest.raises(InputError):
        replace(made, **attached)


def test_what_was_checked_cannot_be_changed_afterwards():
    features, labels = rows()
    made = itemise(C, add=(features, labels))
    features[:], labels[:] = np.nan, 99
    assert np.isfinite(made.added.features).all() and made.added.labels.max() < C
    with pytest.raises(ValueError, match="read-only"):
        made.added.features[0, 0] = 1.0


def test_a_tag_covers_the_rows():
    made = sign(itemise(C, add=rows()), "alice", 1, KEYS["alice"])
    near = made.added.features * (1 + 1e-9)  # these still make the summaries, to the rules' tolerance
    rule = SignedMessages(KEYS)
    assert rule.refuse(made, "alice") is None
    assert Ownership(D, C, show_rows=True).refuse(replace(made, added=Batch(near, made.added.labels)), "alice") is None
    for other in (None, Batch(near, made.added.labels), Batch(made.added.features[::-1], made.added.labels[::-1])):
        assert "not one that the key" in rule.refuse(replace(made, added=other), "alice")


class Wire:
    """A server behind bytes; everything that went over is kept."""

    def __init__(self, server):
        self.server, self.sent = server, []
        self.shape, self.grid = server.shape, server.grid

    def submit(self, update, client):
        self.sent.append((client, encode_update(update)))
        return self.deliver(*self.sent[-1])

    def deliver(self, client, data):
        d, c = self.shape
        return self.server.submit(decode_update(data, d=d, c=c), client)


@pytest.fixture
def wire():
    rules = [
        SignedMessages(KEYS),
        Ownership(D, C, show_rows=True),
        Replay(D, C, tolerance=0.01),
        AlgebraicOwnership(0.01),
    ]
    return Wire(Server(Ledger(Summary.of(*rows(9, 40), C), 0.5), admission=rules))


def client(wire, name):
    return Client(wire, name, show_rows=True, declare_counts=True, sign=Signer(name, KEYS[name]))


class TestClient:
    def test_honest_traffic_passes_and_the_ledger_is_that_of_the_rows(self, wire):
        alice, bob = client(wire, "alice"), client(wire, "bob")
        a, b = rows(1, 8), rows(2, 8)
        assert alice.add(*a).reason is None and bob.add(*b).reason is None
        assert alice.delete(a[0][2:4], a[1][2:4]).reason is None
        extra = rows(3, 1)
        assert bob.exchange(add=extra, delete=(b[0][:1], b[1][:1])).reason is None
        assert alice.add(a[0][2:3], a[1][2:3]).reason is None  # the owner may change its mind
        kept = [rows(9, 40), (np.delete(a[0], 3, 0), np.delete(a[1], 3)), (b[0][1:], b[1][1:]), extra]
        exact = Summary.of(np.vstack([f for f, _ in kept]), np.hstack([y for _, y in kept]), C)
        np.testing.assert_allclose(wire.server.ledger.summary.gram, exact.gram, rtol=1e-12)
        told = decode_update(wire.sent[-1][1])
        assert told.counter == 3 and sum(told.added_counts) == 1 and sum(told.deleted_counts) == 0

    def test_a_recorded_message_does_not_count_twice(self, wire):
        assert client(wire, "alice").add(*rows(1)).accepted
        assert "was used up" in wire.deliver(*wire.sent[0]).reason

    def test_a_forged_message_is_refused(self, wire):
        alice = client(wire, "alice")
        a = rows(1)
        assert alice.add(*a).accepted
        before = wire.server.ledger.summary
        deletion = itemise(C, delete=a)
        name, first = wire.sent[0]
        own = Signer("mallory", KEYS["mallory"])
        forgeries = [
            ("alice", encode_update(deletion), "no tag"),
            ("alice", encode_update(sign(deletion, "alice", 9, KEYS["mallory"])), "not one that the key"),
            ("mallory", encode_update(own(deletion)), "not 'mallory's own"),
            ("bob", first, "not one that the key"),
            (name, encode_update(replace(decode_update(first), counter=2)), "not one that the key"),
            ("mallory", encode_update(own(Update.adding(deletion.delete))), "asks for the rows"),
            (
                "mallory",
                encode_update(own(count(itemise(C, add=rows(5)), [0, 0, 1]))),
                "beyond its declared class counts",
            ),
        ]
        for who, data, reason in forgeries:
            receipt = wire.deliver(who, data)
            assert receipt.reason is not None and reason in receipt.reason
        assert wire.server.ledger.summary == before

    def test_a_client_attaches_only_what_it_is_asked_to(self):
        server = Server(Ledger.zeros(D, C, 0.5))
        wire = Wire(server)
        Client(wire, "alice").add(*rows(1))
        Client(wire, "bob", show_rows=True).add(*rows(2))
        Client(wire, "carol", declare_counts=True).add(*rows(3))
        plain, shown, counted = (decode_update(data) for _, data in wire.sent)
        assert type(plain) is Update
        assert shown.added.features.tobytes() == rows(2)[0].tobytes() and shown.added_counts is None
        assert counted.added is None and counted.added_counts == tuple(np.bincount(rows(3)[1], minlength=C))

    def test_a_refused_message_uses_up_its_number_and_the_next_one_passes(self, wire):
        alice = client(wire, "alice")
        assert not Client(wire, "alice", sign=alice._sign).add(*rows(1)).accepted  # no rows shown
        assert alice.add(*rows(1)).accepted
