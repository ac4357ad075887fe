"""A step counts whole or not at all, wherever in it something raises."""

import threading

import numpy as np
import pytest

from exhume.errors import InputError
from exhume.protocol import Accountant, AdmissionRule, Exposure, Ledger, ReleaseRule, Server, Summary, Update
from exhume.protocol.ledger import SOLVERS

C, D = 3, 5


class Boom(BaseException):
    """Neither ours nor an Exception: what an interrupt is."""


class Fuse:
    """Blows at one named place, when it is lit."""

    def __init__(self):
        self.place = None

    def __deepcopy__(self, memo):
        return self

    def __call__(self, place):
        if place == self.place:
            raise Boom(place)


class Remembers(AdmissionRule):
    def __init__(self, fuse, name):
        self.fuse, self.label, self.seen, self.by_client = fuse, name, [], {}

    def refuse(self, update, client):
        self.fuse(f"{self.label}.refuse")
        return

    def record(self, update, client):
        self.seen.append(client)
        self.by_client.setdefault(client, []).append(update.magnitude)
        self.fuse(f"{self.label}.record")


class Gate(ReleaseRule):
    def __init__(self, fuse):
        self.fuse, self.asked, self.heard = fuse, 0, []

    def release(self, head, occasion):
        self.asked += 1
        self.fuse("release")
        return head

    def record(self, released, occasion):
        self.heard.append(released.serial)
        self.fuse("release.record")


class Ear(Accountant):
    def __init__(self, fuse):
        self.fuse, self.heard = fuse, {"heads": []}

    def review(self, released, exact, occasion):
        self.fuse("review")
        return released

    def observe(self, released, exact, occasion):
        self.heard["heads"].append(released.weights.sum())
        self.fuse("observe")

    def exposure(self, client):
        return Exposure(len(self.heard["heads"]), "heads")


PLACES = ["second.refuse", "first.record", "second.record", "release", "review", "observe", "release.record"]


def batch(seed, n=6):
    rng = np.random.default_rng(seed)
    return Summary.of(rng.normal(size=(n, D)), rng.integers(0, C, n), C)


def world(solver="direct"):
    fuse = Fuse()
    rules = [Remembers(fuse, "first"), Remembers(fuse, "second")]
    server = Server(Ledger.zeros(D, C, 0.5, solver=solver), admission=rules, release=Gate(fuse), accountant=Ear(fuse))
    server.submit(Update.adding(batch(0)), "a")
    return fuse, server


def everything(server):
    """All that a step may change, bit for bit."""
    total, first, second = server.ledger.summary, *server.admission
    return (
        total.gram.tobytes(),
        total.moment.tobytes(),
        server.ledger.head().tobytes(),
        server.ledger.lost,
        server.counts,
        server.released.weights.tobytes(),
        *(repr(sorted(rule.by_client.items())) + repr(rule.seen) for rule in (first, second)),
        (server.release.asked, tuple(server.release.heard)),
        repr(server.accountant.heard),
        server.exposure("a").value,
    )


ROUNDS = {
    "add": [("b", Update.adding(batch(1)))],
    "delete": [("a", Update.deleting(batch(0)))],
    "moment": [("a", Update(batch(0), batch(0).with_moment(2 * batch(0).moment)))],
    "round": [("b", Update.adding(batch(1))), ("c", Update.adding(batch(2)))],
    "round with a culprit": [
        ("b", Update.adding(batch(1))),
        ("c", Update.deleting(Summary.of(1e3 * np.eye(D), [0] * D, C))),
    ],
}


@pytest.mark.parametrize("kind", ROUNDS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_an_error_anywhere_leaves_everything_as_it_was(place, kind, solver):
    fuse, server = world(solver)
    _, untroubled = world(solver)
    before = everything(server)
    fuse.place = place
    with pytest.raises(Boom, match=place):
        server.submit_round(ROUNDS[kind])
    fuse.place = None
    assert everything(server) == before
    # And it goes on as if nothing had been: the same message again, then others.
    for messages in (ROUNDS[kind], [("d", Update.adding(batch(3)))]):
        server.submit_round(messages)
        untroubled.submit_round(messages)
    assert everything(server) == everything(untroubled)


@pytest.mark.parametrize("place", ["release", "review", "observe", "release.record"])
def test_a_baseline_that_breaks_down_was_not_broadcast(place):
    fuse = Fuse()
    server = Server(Ledger.zeros(D, C, 0.5), release=Gate(fuse), accountant=Ear(fuse))
    fuse.place = place
    with pytest.raises(Boom):
        server.head()
    assert server.released is None and server.counts.broadcasts == 0
    assert (server.release.asked, server.release.heard, server.exposure("a").value) == (0, [], 0)
    fuse.place = None
    assert server.head().serial == 1


class Shy(AdmissionRule):
    """A rule that cannot be copied: it holds a lock."""

    name = "shy"

    def __init__(self):
        self.lock = threading.Lock()

    def refuse(self, update, client):
        return None

    def record(self, update, client):
        pass


class Careful(Shy):
    def checkpoint(self, clients):
        return lambda: None


def test_a_rule_that_cannot_be_put_back_is_found_when_the_server_is_built():
    with pytest.raises(InputError, match="shy must be copyable, or with a checkpoint of its own; got cannot pickle"):
        Server(Ledger.zeros(D, C, 0.5), admission=[Shy()])
    assert Server(Ledger.zeros(D, C, 0.5), admission=[Careful()]).submit(ROUNDS["add"][0][1], "a").accepted


class Picky(ReleaseRule):
    def check_size(self, d, c):
        if d > 4:
            raise InputError("d", "at most 4", d)

    def release(self, head, occasion):
        return head


def test_rules_are_asked_about_the_ledger_when_the_server_is_built():
    with pytest.raises(InputError, match="d must be at most 4; got 5"):
        Server(Ledger.zeros(D, C, 0.5), release=Picky())
    Server(Ledger.zeros(4, C, 0.5), release=Picky())
