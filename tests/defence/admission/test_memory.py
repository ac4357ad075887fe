"""Rules that remember can be saved, and go on as if nothing had happened; they take nobody else's memory."""

import numpy as np
import pytest

from exhume import Ledger, Server, Summary, Update
from exhume.defence.admission import (
    FEATURES,
    AlgebraicOwnership,
    Detector,
    Duplicates,
    Ownership,
    Replay,
    SignedMessages,
    sign,
)
from exhume.errors import InputError
from exhume.protocol import count, itemise

D, C = 6, 3
KEYS = {"alice": b"a" * 32, "bob": b"b" * 32}
CALM = {"centre": [0.0] * len(FEATURES), "spread": [1.0] * len(FEATURES), "threshold": 9.0, "rate": 0.1}

MAKE = {
    "signed-messages": lambda: SignedMessages(KEYS),
    "duplicates": lambda: Duplicates(D, C),
    "replay": lambda: Replay(D, C),
    "ownership": lambda: Ownership(D, C),
    "algebraic-ownership": lambda: AlgebraicOwnership(0.1),
    "detector": lambda: Detector(D, C, **CALM),
}


def batch(seed, n=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, D)) + 1.0, rng.integers(0, C, n)


def messages():
    """Additions, deletions and attempts at both sides of every rule, by two clients."""
    a, b = batch(1), batch(2)
    plain = [
        ("alice", itemise(C, add=a)),
        ("bob", Update.adding(Summary.of(*b, C))),
        ("bob", count(Update.adding(Summary.of(*batch(3), C)), added=np.bincount(batch(3)[1], minlength=C))),
        ("alice", itemise(C, delete=(a[0][:1], a[1][:1]))),
        # From here on, what came before decides.
        ("bob", Update.adding(Summary.of(a[0][:1], a[1][:1], C))),
        ("bob", Update.adding(Summary.of(-2 * b[0], b[1], C))),
        ("bob", Update.deleting(Summary.of(*b, C))),
        ("alice", Update.deleting(Summary.of(*b, C))),
        ("alice", itemise(C, delete=(a[0][1:2], a[1][1:2]))),
    ]
    signed = [(client, sign(update, client, i + 1, KEYS[client])) for i, (client, update) in enumerate(plain)]
    return [*signed, signed[0]]


def answers(rule, sent):
    server = Server(Ledger(Summary.of(*batch(9, 200), C), 1.0), admission=[rule])
    return [server.submit(update, client).reason for client, update in sent]


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("cut", [0, 4, 7])
def test_a_restored_rule_answers_like_the_one_that_never_stopped(name, cut):
    sent = messages()
    steady = MAKE[name]()
    expected = answers(steady, sent)
    first, second = MAKE[name](), MAKE[name]()
    first.load(MAKE[name]().save())
    before = answers(first, sent[:cut])
    second.load(first.save())
    assert before + answers(second, sent[cut:]) == expected
    assert name == "detector" or any(expected)
    assert second.remembered().values.keys() == steady.remembered().values.keys()


@pytest.mark.parametrize("name", MAKE)
def test_another_rules_memory_is_refused_by_name(name):
    other = "replay" if name != "replay" else "duplicates"
    with pytest.raises(InputError, match=f"that of '{name}'"):
        MAKE[name]().load(MAKE[other]().save())


def test_another_configuration_is_refused_by_name():
    with pytest.raises(InputError, match="least_norm"):
        AlgebraicOwnership(0.1).load(AlgebraicOwnership(0.2).save())
    with pytest.raises(InputError, match="tolerance"):
        Replay(D, C, tolerance=0.2).load(Replay(D, C).save())
