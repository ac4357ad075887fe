"""A server that restarts with its saved state goes on as if it had never stopped; without, it forgets who owns what."""

import json

import numpy as np
import pytest
from safetensors.numpy import load as load_arrays

from exhume import AdmissionRule, Ledger, ReleaseRule, Summary, Update
from exhume.defence import Chain, Config, Defences, Entry, build, save_server
from exhume.defence.admission import FEATURES, AlgebraicOwnership, PositiveSemidefinite, sign
from exhume.defence.memory import Memory, Saveable, nested, pack, unpack
from exhume.errors import InputError
from exhume.protocol import itemise
from exhume.protocol.rules import Accountant, Exposure

D, C, GAMMA = 6, 3, 0.5
KEYS = {"alice": b"a" * 32, "bob": b"b" * 32}
CALM = {"centre": [0.0] * len(FEATURES), "spread": [1.0] * len(FEATURES), "threshold": 3.0, "rate": 0.1}
RULES = {
    "signed-messages": {"keys": KEYS},
    "positive-semidefinite": {},
    "duplicates": {},
    "ownership": {"show_rows": True},
    "replay": {},
    "algebraic-ownership": {"least_norm": 0.1},
    "detector": CALM,
}


def config(*names, **changes):
    entries = tuple(
        Entry.of(name, **(RULES[name] | changes.get(name.replace("-", "_"), {}))) for name in names or RULES
    )
    release = (Entry.of("every-k-changes", changes=2), Entry.of("posterior-noise", sigma=0.1))
    return Config(admission=entries, release=release, accountant=Entry.of("identification", margin=2))


def rows(seed, n=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, D)) + 1.0, rng.integers(0, C, n)


def part(batch, *which):
    return batch[0][list(which)], batch[1][list(which)]


def plain(**sides):
    made = itemise(C, **sides)
    return Update(made.add, made.delete)


def ledger():
    return Ledger(Summary.of(*rows(9, 60), C), GAMMA)


A, B = rows(1), rows(2)
PAST = [
    ("alice", sign(itemise(C, add=A), "alice", 1, KEYS["alice"])),
    ("bob", sign(itemise(C, add=B), "bob", 1, KEYS["bob"])),
    ("alice", sign(itemise(C, delete=part(A, 0)), "alice", 2, KEYS["alice"])),
]
ATTACKS = {
    "signed-messages": ("alice", PAST[0][1], "was used up"),
    "duplicates": ("bob", plain(add=(-2 * A[0], A[1])), "was added before"),
    "ownership": ("bob", itemise(C, delete=part(B, 1)), None),
    "ownership by nobody": ("alice", itemise(C, delete=part(B, 1)), "not 'alice's own"),
    "replay": ("bob", plain(add=part(A, 0)), "another client had deleted"),
    "algebraic-ownership": ("bob", plain(delete=B), None),
    "algebraic-ownership of another": ("alice", plain(delete=part(B, 0)), "after this deletion"),
}
"""Messages that a restarted server must judge by what came before; None where it must accept."""


def content(state):
    """Return a state as it is whatever the order of its headers, in which safetensors is free."""
    size = int.from_bytes(state[:8], "little")
    header = json.loads(state[8 : 8 + size])["__metadata__"]
    del header["sha256"]
    arrays = {
        name: content(array.tobytes()) if array.dtype == np.uint8 and name != ".values" else array.tobytes()
        for name, array in load_arrays(state).items()
    }
    return header, arrays


def sent(defences, messages):
    server = defences.server(ledger())
    return server, [server.submit(update, client).reason for client, update in messages]


@pytest.mark.parametrize("name", ATTACKS)
def test_what_was_refused_before_a_restart_is_refused_after_it_and_only_with_the_state(name):
    rule, (client, update, reason) = name.split()[0], ATTACKS[name]
    before = build(config(rule), ledger())
    assert sent(before, PAST)[1] == [None] * 3
    after, forgetful = build(config(rule), ledger()), build(config(rule), ledger())
    after.load(before.save())
    found = after.admission[0].refuse(update, client)
    assert found is None if reason is None else reason in found
    assert found == before.admission[0].refuse(update, client)
    # A server that forgot answers otherwise: it takes what it must refuse, or refuses the owner.
    forgot = forgetful.admission[0].refuse(update, client)
    if name == "ownership by nobody" or name == "algebraic-ownership of another":
        assert forgot is not None  # nobody owns anything there
    else:
        assert (forgot is None) != (found is None)


def test_a_detector_goes_on_counting_and_keeps_whom_it_flagged():
    before = build(config("detector", detector={"refuse_flagged": False, "threshold": 0.5}), ledger())
    sent(before, PAST)
    after = build(config("detector", detector={"refuse_flagged": False, "threshold": 0.5}), ledger())
    assert not after.admission[0].flagged
    after.load(before.save())
    assert after.admission[0].flagged == before.admission[0].flagged == {"alice", "bob"}


def test_all_rules_together_with_release_and_accountant():
    before = build(config(), ledger())
    _, reasons = sent(before, PAST)
    assert reasons == [None] * 3
    after = build(config(), ledger())
    after.load(before.save())
    assert content(after.save()) == content(before.save())
    assert after.accountant.exposure("alice") == before.accountant.exposure("alice")
    assert content(Defences.of(after.server(ledger())).save()) == content(before.save())


def damaged(state, place, change):
    """Return a state of defences with one part replaced, its checksum right again: as a faulty version would write."""
    shape = build(config(), ledger()).configuration()
    saved = unpack(state, "defences", shape)
    return pack("defences", shape, Memory({}, {**saved.arrays, place: nested(change)}))


def test_a_state_damaged_in_its_last_part_changes_no_part():
    before = build(config(), ledger())
    sent(before, PAST)
    after = build(config(), ledger())
    untouched = content(after.save())
    state = before.save()
    flipped = bytearray(state)
    flipped[-3] ^= 1
    accountant = pack("identification", after.accountant.configuration(), Memory({"runs": []}))  # the rest is missing
    bad = {
        "flipped bit": (bytes(flipped), "damaged"),
        "cut": (state[:-40], "state must be"),
        "no state": (b"", "state must be"),
        "last part": (damaged(state, "accountant", accountant), "state of accountant must be one that"),
        "another rule's": (
            damaged(state, "accountant", AlgebraicOwnership(0.1).save()),
            "that of 'algebraic-ownership'",
        ),
        "one too many": (damaged(state, "else", b"x"), "else"),
    }
    for name, (data, message) in bad.items():
        with pytest.raises(InputError, match=message):
            after.load(data)
        assert content(after.save()) == untouched, name
    after.load(state)
    assert content(after.save()) == content(state)


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (config("signed-messages", "algebraic-ownership"), "state of defences: admission"),
        (
            config(algebraic_ownership={"least_norm": 0.2}),
            "state of algebraic-ownership: least_norm must be 0.2; got 0.1",
        ),
        (config(replay={"tolerance": 0.2}), "state of replay: tolerance"),
        (config().model_copy(update={"accountant": None}), "state of defences: accountant"),
        (config().model_copy(update={"release": ()}), "state of defences: release"),
    ],
)
def test_a_state_of_another_configuration_is_refused_by_name(other, match):
    before = build(config(), ledger())
    sent(before, PAST)
    after = build(other, ledger())
    untouched = content(after.save())
    with pytest.raises(InputError, match=match):
        after.load(before.save())
    assert content(after.save()) == untouched


def test_what_no_rule_remembers_may_change_between_saving_and_loading():
    before = build(config(), ledger())
    more = config(signed_messages={"keys": KEYS | {"carol": b"c" * 32}}, positive_semidefinite={"most_rows": 99})
    build(more, ledger()).load(before.save())


class Counting(AdmissionRule):
    """Another package's rule, which remembers and cannot be saved."""

    def refuse(self, update, client):
        return None

    def record(self, update, client):
        self.seen = client


class Tired(ReleaseRule):
    def release(self, head, occasion):
        return head

    def record(self, released, occasion):
        self.heads = 1


class Blind(Accountant):
    def review(self, released, exact, occasion):
        return released

    def observe(self, released, exact, occasion):
        pass

    def exposure(self, client):
        return Exposure(0.0, "unknown")


@pytest.mark.parametrize(
    ("defences", "match"),
    [
        (Defences((PositiveSemidefinite(), Counting()), None, None), r"admission\[1\] must be .*; got Counting"),
        (Defences((), Tired(), None), "release must be .*; got Tired"),
        (Defences((), Chain([Tired()]), None), r"release\[0\] must be .*; got Tired"),
        (Defences((), None, Blind()), "accountant must be .*; got Blind"),
    ],
)
def test_a_rule_that_remembers_and_cannot_be_saved_is_named_not_forgotten(defences, match, tmp_path):
    with pytest.raises(InputError, match=match):
        defences.save()
    with pytest.raises(InputError, match=match):
        save_server(defences.server(ledger()), tmp_path / "server")
    assert list(tmp_path.iterdir()) == []


def test_another_packages_rule_that_is_saveable_is_saved():
    class Kept(Saveable, Counting):
        name = "kept"

        def remembered(self):
            return Memory({"seen": self.seen})

        def restore(self, memory):
            self.seen = memory.values["seen"]

    before, after = Defences((Kept(),), None, None), Defences((Kept(),), None, None)
    after.admission[0].seen = None
    sent(before, [("alice", plain(add=A))])
    after.load(before.save())
    assert after.admission[0].seen == "alice"


def test_more_rows_than_a_header_holds_are_saved_and_loaded():
    owner = build(config("ownership"), ledger()).admission[0]
    names = {f"client {i}": {i.to_bytes(32, "little"): 1} for i in range(20_000)}
    owner._rows._held = names
    state = owner.save()
    assert int.from_bytes(state[:8], "little") < 2000  # nothing that grows is in the header
    again = build(config("ownership"), ledger()).admission[0]
    again.load(state)
    assert again._rows._held == names
