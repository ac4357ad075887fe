"""A deployment: SuperLink and SuperNodes as processes, TLS and logins. The ledger is that of a plain NumPy loop."""

import hashlib
import ipaddress
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from exhume.errors import StoreError
from exhume.flower.deploy import deployed
from exhume.flower.durable import StoreBook
from exhume.flower.rounds import digest
from exhume.store import OperatorKey, ServerSetup

pytestmark = pytest.mark.flower

APP = Path(__file__).parents[2] / "examples" / "flower"
sys.path.insert(0, str(APP))

from exhume_flower.task import Task  # noqa: E402

GRID, GAMMA = 2.0**-8, 1e-3


class Watch(threading.Thread):
    """Looks at the sockets (TCP and UDP, IPv4 and IPv6) of all children of this process, again and again."""

    def __init__(self):
        super().__init__(daemon=True)
        self.remote, self.local, self.names, self.over = set(), set(), set(), threading.Event()

    def run(self):
        while not self.over.wait(0.3):
            for process in psutil.Process().children(recursive=True):
                try:
                    self.names.add(" ".join(process.cmdline()[:3]))
                    for socket in process.net_connections("inet"):
                        self.local |= {socket.laddr.ip} if socket.laddr else set()
                        self.remote |= {socket.raddr.ip} if socket.raddr else set()
                except psutil.Error:
                    continue


HOOK = """
import os, sys

def heard(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        where = arguments[1] if event in ("socket.connect", "socket.sendto") else arguments[0]
        host = where[0] if isinstance(where, tuple) else where
        with open(os.environ["EXHUME_TEST_CALLS"], "a") as file:
            file.write(f"{event} {host}\\n")

sys.addaudithook(heard)
"""


def listening(folder):
    """Return the variables that make every Python process write down whom it calls, however short the call is."""
    (folder / "hook").mkdir()
    (folder / "hook" / "sitecustomize.py").write_text(HOOK, encoding="utf-8")
    path = os.pathsep.join([str(folder / "hook"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    return {"PYTHONPATH": path, "EXHUME_TEST_CALLS": str(folder / "calls")}


def is_here(host):
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.startswith(("/", "None"))  # a socket file, or no host at all


def numpy_ledger(task, rounds):
    """Play the rounds with plain NumPy; on the grid sums are exact in any order."""
    found = task.features()
    gram, moment = np.zeros((found.dim, found.dim)), np.zeros((found.dim, found.classes))
    held = {k: set() for k in range(task.partitions)}
    for number in range(1, rounds + 1):
        for k in range(task.partitions):
            mine = task.partition(k)
            wanted = set(task.wanted(k, number))
            if number == task.unlearn_round:
                wanted &= held[k]
            for sign, rows in ((1, wanted - held[k]), (-1, held[k] - wanted)):
                some = np.rint(found.train_features[mine[sorted(rows)]] / GRID) * GRID
                gram += sign * (some.T @ some)
                moment += sign * (some.T @ np.eye(found.classes)[found.train_labels[mine[sorted(rows)]]])
            held[k] = wanted
    return hashlib.sha256(gram.tobytes() + moment.tobytes()).hexdigest()


def stored(folder, task):
    found = task.features()
    key = OperatorKey.load(folder / "exhume-flower.key")
    setup = ServerSetup(found.dim, found.classes, GAMMA, GRID, app=vars(task))
    with StoreBook.open(str(folder / "exhume-flower.db"), setup, key, watch=False) as book:
        return digest(book.server.ledger), book.rounds


def test_a_deployment_ends_in_the_ledger_of_a_numpy_loop_and_stays_on_this_machine(tmp_path):
    task = Task(dim=16, partitions=2, rows=30, adding=1, unlearn_round=2, forget=5)
    config = {"dim": 16, "partitions": 2, "rows": 30, "adding": 1, "unlearn-round": 2, "forget": 5, "rounds": 2}
    watch = Watch()
    watch.start()
    with deployed(tmp_path, [{"partition-id": k} for k in range(2)], listening(tmp_path)) as made:
        run = made.run(APP, config | {"nodes": 2})
        status = made.wait(run, timeout=150)
        watch.over.set()
        watch.join()
        said = made.flwr("log", str(run), "exhume", "--show")
    assert status == "finished:completed", said + made.log("superlink")
    want = numpy_ledger(task, 2)
    assert stored(tmp_path, task) == (want, 2)
    # The log says what is in the ledger, and who did what.
    assert "round 2 (query.unlearn): 2 of 2 messages are in the ledger" in said
    assert f"2 rounds, ledger {want}" in said
    # Processes of every kind were looked at, and none had a socket to anywhere else.
    seen = " ".join(watch.names)
    kinds = ("flower-superlink", "flower-supernode", "flwr-serverapp", "flwr-clientapp", "flwr run")
    assert [kind for kind in kinds if kind not in seen] == []
    assert watch.remote and all(ipaddress.ip_address(ip).is_loopback for ip in watch.remote | watch.local)
    # Nor did Python code of theirs look up or call anybody else between two looks.
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert calls and [call for call in calls if not is_here(call.split(" ", 1)[1])] == []


def wait_for(condition, timeout=90.0):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.3)


def test_a_killed_node_and_a_restarted_superlink_lose_nothing_and_double_nothing(tmp_path):
    task = Task(dim=16, partitions=2, rows=30, adding=4, unlearn_round=0)
    config = {"dim": 16, "partitions": 2, "rows": 30, "adding": 4, "unlearn-round": 0, "nodes": 2, "timeout": 40.0}
    with deployed(tmp_path, [{"partition-id": k} for k in range(2)]) as made:
        run = made.run(APP, config | {"rounds": 2})
        wait_for(lambda: "Receiving: train message" in made.log("node0"))
        made.kill("node0")  # in the middle of its first round
        wait_for(lambda: made.log("superlink").count("Push replies") >= 1)
        made.start_node(0)
        assert made.wait(run, timeout=300, pause=5) == "finished:completed"
        said = made.flwr("log", str(run), "exhume", "--show")
        assert "its rows are not in the ledger" in said and "1 of 2 messages are in the ledger" in said
        # What was lost in the first round came with the second: the ledger is that of a run without a fault.
        assert stored(tmp_path, task) == (numpy_ledger(task, 2), 2)
        # Where Flower refused the node because it came back too soon, it was started again until it was let in.
        assert made.log("node0").count("could not be activated") <= made.restarts.get("node0", 0)

        cut = made.run(APP, config | {"rounds": 4})
        wait_for(lambda: made.log("node1").count("Receiving: train message") >= 3)
        made.kill("superlink")  # in the middle of the third round or just after
        made.start_superlink()
        wait_for(lambda: _stored_rounds(tmp_path, task) >= 2, 60)
        again = made.run(APP, config | {"rounds": 4})
        assert cut != again and made.wait(again, timeout=300, pause=5) == "finished:completed"
        assert "going on after round" in made.flwr("log", str(again), "exhume", "--show")
    assert stored(tmp_path, task) == (numpy_ledger(task, 4), 4)


def _stored_rounds(folder, task):
    """The rounds in the store, once the ServerApp of the dead SuperLink has let go of it."""
    try:
        return stored(folder, task)[1]
    except StoreError:
        return -1
