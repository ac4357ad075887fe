"""One server, many threads."""

import copy
import itertools
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from exhume.protocol import Accountant, AdmissionRule, Exposure, Ledger, Server, Summary, Update

C, D, THREADS, EACH = 3, 4, 8, 400


@pytest.fixture
def short_switches():
    """Threads take turns every few instructions, so that what is not safe breaks at once."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Tally(AdmissionRule):
    """Counts by reading, waiting and writing: wrong as soon as two do it at once."""

    def __init__(self):
        self.seen = 0

    def refuse(self, update, client):
        return "too much" if update.magnitude > 1e6 else None

    def record(self, update, client):
        now = self.seen
        sum(range(20))
        self.seen = now + 1


class Last(Accountant):
    def __init__(self):
        self.heads = 0
        self.latest = 0

    def review(self, released, exact, occasion):
        return released

    def observe(self, released, exact, occasion):
        self.heads += 1
        sum(range(50))  # time for others to look at one half of it
        self.latest = released.serial

    def exposure(self, client):
        return Exposure(self.heads - self.latest, "0 if what it kept belongs together")


def test_thousands_of_submissions_from_eight_threads_all_count_once(short_switches):
    server = Server(Ledger.zeros(D, C, 1.0, grid=2.0**-10), admission=[Tally()], accountant=Last())
    rows = np.rint(np.random.default_rng(0).normal(size=(THREADS, EACH, D)) * 2**10) * 2.0**-10
    huge = Update.adding(Summary.of(np.full((1, D), 2.0**11), [0], C))
    torn = []

    def client(k):
        serials = []
        for i in range(EACH):
            receipt = server.submit(Update.adding(Summary.of(rows[k, i : i + 1], [i % C], C)), f"client {k}")
            assert receipt.accepted
            serials.append(receipt.head.serial)
            if i % 40 == 0:
                assert not server.submit(huge, f"client {k}").accepted
            if server.exposure("x").value != 0 or server.head().serial < serials[-1]:
                torn.append((k, i))
        return serials

    with ThreadPoolExecutor(THREADS) as pool:
        serials = list(pool.map(client, range(THREADS)))
    assert torn == []
    total = Summary.of(rows.reshape(-1, D), np.tile(np.arange(EACH) % C, THREADS), C)
    assert server.ledger.summary == total
    assert server.ledger.head().tobytes() == Ledger(total, 1.0, grid=2.0**-10).head().tobytes()
    accepted = THREADS * EACH
    counts = server.counts
    assert (counts.submissions, counts.messages, counts.pairs, counts.broadcasts) == (accepted,) * 4
    assert counts.refused == THREADS * EACH // 40
    assert server.admission[0].seen == accepted
    assert all(later > earlier for mine in serials for earlier, later in itertools.pairwise(mine))
    assert sorted(serial for mine in serials for serial in mine) == list(range(1, accepted + 1))
    assert server.head().serial == accepted


def test_eight_threads_on_a_fresh_server_see_one_baseline(short_switches):
    for _ in range(50):
        server = Server(Ledger.zeros(D, C, 1.0))
        gate = threading.Barrier(THREADS)

        def look(server=server, gate=gate):
            gate.wait()
            return server.head()

        with ThreadPoolExecutor(THREADS) as pool:
            heads = [future.result() for future in [pool.submit(look) for _ in range(THREADS)]]
        assert all(head is heads[0] for head in heads)
        assert server.counts.broadcasts == 1


class Slow(AdmissionRule):
    """Waits in the middle of a step until it is told to go on."""

    def __init__(self):
        self.reached, self.go = threading.Event(), threading.Event()

    def checkpoint(self, clients):
        return lambda: None

    def refuse(self, update, client):
        return None

    def record(self, update, client):
        if client == "slow":
            self.reached.set()
            assert self.go.wait(60)


def test_readers_do_not_wait_for_a_writer_and_see_the_last_finished_step():
    slow = Slow()
    server = Server(Ledger.zeros(D, C, 1.0), admission=[slow])
    block = Summary.of(np.eye(D), [0] * D, C)
    server.submit(Update.adding(block), "quick")
    head, counts = server.head(), server.counts
    writer = threading.Thread(target=server.submit, args=(Update.adding(block), "slow"))
    writer.start()
    assert slow.reached.wait(60)
    # The writer holds the lock and waits for us: whatever waited for it here would wait for ever.
    assert (server.head(), server.released, server.counts) == (head, head, counts)
    assert not writer.join(0.0) and writer.is_alive()
    slow.go.set()
    writer.join(60)
    assert server.head().serial == head.serial + 1
    with pytest.raises(ValueError, match="read-only"):
        head.weights[0, 0] = 1.0


def test_exposure_is_never_asked_in_the_middle_of_a_step():
    slow = Slow()
    server = Server(Ledger.zeros(D, C, 1.0), admission=[slow], accountant=Last())
    writer = threading.Thread(target=server.submit, args=(Update.adding(Summary.of(np.eye(D), [0] * D, C)), "slow"))
    writer.start()
    assert slow.reached.wait(60)
    answers = []
    reader = threading.Thread(target=lambda: answers.append(server.exposure("a")))
    reader.start()
    reader.join(0.2)
    assert reader.is_alive() and answers == []
    slow.go.set()
    reader.join(60)
    assert len(answers) == 1
    writer.join(60)


def test_what_is_read_while_submissions_are_paused_belongs_together(short_switches):
    server = Server(Ledger.zeros(1, 1, 1.0, grid=1.0))
    row = Update.adding(Summary.of([[1.0]], [0], 1))
    stop = threading.Event()

    def write(k):
        while not stop.is_set():
            server.submit(row, f"client {k}")

    with ThreadPoolExecutor(4) as pool:
        for k in range(4):
            pool.submit(write, k)
        try:
            for _ in range(300):
                with server.paused() as still:
                    n = still.counts.messages
                    assert (still.ledger.summary.moment[0, 0], still.counts.submissions) == (n, n)
                    assert (still.released is None) == (n == 0) and (n == 0 or still.head().serial == n)
                twin = copy.deepcopy(server)
                assert twin.ledger.summary.moment[0, 0] == twin.counts.messages
        finally:
            stop.set()
    assert server.counts.messages > 0


class Nosy(AdmissionRule):
    """Lets somebody submit while the server is being copied."""

    def __init__(self):
        self.server, self.writer = None, None

    def checkpoint(self, clients):
        return lambda: None

    def refuse(self, update, client):
        return None

    def record(self, update, client):
        pass

    def __deepcopy__(self, memo):
        block = Update.adding(Summary.of(np.eye(D), [0] * D, C))
        self.writer = threading.Thread(target=self.server.submit, args=(block, "a"))
        self.writer.start()
        self.writer.join(0.3)
        assert self.writer.is_alive()  # it waits for the copy
        return Nosy()


def test_nobody_submits_while_a_server_is_copied():
    nosy = Nosy()
    server = nosy.server = Server(Ledger.zeros(D, C, 1.0), admission=[nosy])
    twin = copy.deepcopy(server)
    nosy.writer.join(60)
    assert (twin.counts.messages, server.counts.messages) == (0, 1)
    assert twin.ledger.summary.is_zero


@pytest.mark.parametrize("again", [copy.deepcopy, lambda server: pickle.loads(pickle.dumps(server))])
def test_a_copy_of_a_server_goes_its_own_way(again):
    server = Server(Ledger.zeros(D, C, 1.0), admission=[Tally()], accountant=Last())
    server.submit(Update.adding(Summary.of(np.eye(D), [0] * D, C)), "a")
    twin = again(server)
    assert (twin.head(), twin.counts, twin.ledger.summary) == (server.head(), server.counts, server.ledger.summary)
    for one in (server, twin):
        one.submit(Update.adding(Summary.of(np.eye(D), [1] * D, C)), "b")
    twin.submit(Update.adding(Summary.of(np.eye(D), [2] * D, C)), "c")
    assert (server.counts.messages, twin.counts.messages) == (2, 3)
    assert (server.admission[0].seen, twin.admission[0].seen) == (2, 3)
    assert server.ledger.summary != twin.ledger.summary
