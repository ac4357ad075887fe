"""Whether the time that the hardened server takes for one client's messages tells that client anything of others.

Two kinds of world differ in other clients' data and deletions alone: single records come and go, or up to 16 at a time,
as long as allowed, which the cap cuts. Of each kind there are several servers, since no two lie alike in memory: their
rows are drawn apart. In all a client sends the same messages: a record comes, goes, and is asked to go again, which is
refused. Servers take turns, in an order drawn by lot for each message, so that a busy machine slows all.

The client takes the median of all times that a server took for a kind of message, and guesses the world from it: how
often a server of the second kind is the slower of two (0.5 is chance), with the probability that servers of one kind
come out so far from it (Mann and Whitney, exact). Once the message comes at once after somebody else's, whose work is
then still in the processor's caches, and once (`later`) after something else has run.

With `--http` every server is a service of its own, a process with a store on the disk, and everybody sends over
loopback: what a stranger can measure. `--pace` is the service's limit of that name. With `--equal` others send up to
16 rows in both kinds of world, and in the second the cap cuts them.

    python benchmarks/timing_oracle.py [--dim 512] [--servers 8] [--turns 20] [--equal] [--http [--pace 0.02]] [--json]
"""

import argparse
import http.client
import json
import multiprocessing
import tempfile
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import numpy as np
from scipy.stats import mannwhitneyu
from threadpoolctl import threadpool_limits

import exhume as ex
from exhume.defence import Bounds, hardened_config
from exhume.protocol import Ledger, Summary, itemise
from exhume.protocol.wire import encode_update

C, GAMMA, MOST = 10, 1e-3, (1, 16)
KINDS = ("comes", "goes", "refused")
ELSE = 2**22
"""Numbers that something else reads and writes: more than a cache holds."""


class World:
    """A hardened server in this process with other clients behind it."""

    clocks = ("processor", "wall")

    def __init__(self, d, seed, bounds, equal=False):
        self.rng, self.d, self.bounds, self.long = np.random.default_rng([seed, 1]), d, bounds, seed % 2 == 1
        self.most = MOST[1] if equal else MOST[seed % 2]
        self.standing = []
        self.start(self.rows(4 * d), f"{seed:02x}" * 16)

    def start(self, rows, key):
        self.server = ex.hardened(Ledger(Summary.of(*rows, C), GAMMA), bounds=self.bounds, rows=4 * self.d, key=key)
        self.server.head()

    def timed(self, message, client="mallory"):
        wall, spent = time.perf_counter(), time.process_time()
        receipt = self.server.submit(message, client)
        return time.process_time() - spent, time.perf_counter() - wall, receipt.accepted

    def rows(self, count):
        made = self.rng.standard_normal((count, self.d)).clip(0)
        return made, self.rng.integers(0, C, count)

    def others_act(self):
        """Let somebody else send one message: rows come, up to `most` of them, some as long as allowed, or go."""
        if self.standing and self.rng.random() < 0.5:
            message = {"delete": self.standing.pop(int(self.rng.integers(len(self.standing))))}
        else:
            made, labels = self.rows(int(self.rng.integers(1, self.most + 1)))
            if self.long:
                made *= (self.bounds.longest / np.linalg.norm(made, axis=1))[:, None]
            self.standing.append((made, labels))
            message = {"add": self.standing[-1]}
        *_, accepted = self.timed(itemise(C, **message), "somebody")
        assert accepted


class ServedWorld(World):
    """The same behind HTTP: a process of its own, a store on the disk, a token for each client."""

    clocks = ("wall",)

    def __init__(self, d, seed, bounds, pace, kept, equal=False):
        self.pace, self.kept, self.keys = pace, kept, count()
        super().__init__(d, seed, bounds, equal)

    def start(self, rows, key):
        folder = self.kept.enter_context(tempfile.TemporaryDirectory(prefix="exhume-timing-"))
        ours, theirs = multiprocessing.Pipe()
        defence = hardened_config(self.d, bounds=self.bounds, rows=4 * self.d, founding=1, key=key)
        process = multiprocessing.Process(target=run_service, args=(theirs, folder, self.d, defence, self.pace))
        process.start()
        self.kept.callback(process.join)
        self.kept.callback(process.terminate)
        host, port, self.tokens = ours.recv()
        self.link = http.client.HTTPConnection(host, port)
        *_, accepted = self.timed(itemise(C, add=rows), "somebody")
        assert accepted

    def timed(self, message, client="mallory"):
        body = encode_update(message)
        headers = {"Authorization": f"Bearer {self.tokens[client]}", "Idempotency-Key": str(next(self.keys))}
        self.link.close()  # a service hangs up on who is idle for long: each message has a connection of its own
        self.link.connect()
        began = time.perf_counter()
        self.link.request("POST", "/v1/updates", body, headers)
        content = self.link.getresponse().read()
        took = time.perf_counter() - began
        return took, json.loads(content)["accepted"]


def run_service(told, folder, d, defence, pace):
    """Be one service: say where it listens and whose tokens it takes, and serve until the end."""
    from exhume.service import Address, FederationService, Limits, serve  # the extra serve, asked for by --http alone
    from exhume.store import OperatorKey, ServerSetup
    from exhume.store import open as open_store

    with threadpool_limits(1):
        store = open_store(str(Path(folder) / "s.db"), ServerSetup(d, C, GAMMA, defence=defence), OperatorKey.make())
        service = FederationService(store, Limits(rows=4 * d, per_minute=1e9, burst=10**9, pace=pace))
        tokens = {name: service.tokens.enrol(name) for name in ("mallory", "somebody")}

        def started(addresses):
            host, port = addresses[0].removeprefix("http://").split(":")
            told.send((host, int(port), tokens))

        serve(service, Address(port=0), Address(port=0), started=started)


def measure(d, turns, later, make):
    rng, something = np.random.default_rng(0), np.ones(ELSE)
    own = rng.standard_normal((turns, d)).clip(0), rng.integers(0, C, turns)
    worlds = make(Bounds.measure(own[0], client_rows=100 * turns + 4 * d))
    clocks = worlds[0].clocks
    found = {kind: np.empty((turns, len(worlds), len(clocks))) for kind in KINDS}
    for turn in range(turns):
        row = (own[0][[turn]], own[1][[turn]])
        messages = {"comes": itemise(C, add=row), "goes": itemise(C, delete=row), "refused": itemise(C, delete=row)}
        for kind in KINDS:
            for i in rng.permutation(len(worlds)):
                worlds[i].others_act()
                if later:
                    something += 1.0
                *times, accepted = worlds[i].timed(messages[kind])
                assert accepted is (kind != "refused")
                found[kind][turn, i] = times
    return {
        kind: {clock: compared(values[2:, :, i]) for i, clock in enumerate(clocks)} for kind, values in found.items()
    }


def compared(times):
    """Return the median of each kind of world in microseconds, how servers of one differ, and whether worlds do."""
    medians = 1e6 * np.median(times, axis=0)
    one, other = medians[::2], medians[1::2]
    test = mannwhitneyu(other, one, method="exact")
    return {
        "microseconds": [round(float(np.median(one))), round(float(np.median(other)))],
        "between_servers": [round(float(np.std(one, ddof=1))), round(float(np.std(other, ddof=1)))],
        "longer": float(test.statistic) / (len(one) * len(other)),
        "p": float(test.pvalue),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--servers", type=int, default=8, help="of each kind of world")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--equal", action="store_true", help="others send as many rows in both kinds of world")
    parser.add_argument("--http", action="store_true", help="over loopback, each server a service (extra serve)")
    parser.add_argument("--pace", type=float, default=0.0, help="with --http: the service's limits.pace, in seconds")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    if options.pace and not options.http:
        parser.error("--pace goes with --http")
    d, servers, turns = options.dim, options.servers, options.turns
    found = {}
    for when in ("at once", "later"):
        with threadpool_limits(1), ExitStack() as kept:

            def make(bounds, kept=kept):
                if options.http:
                    return [
                        ServedWorld(d, seed, bounds, options.pace, kept, options.equal) for seed in range(2 * servers)
                    ]
                return [World(d, seed, bounds, options.equal) for seed in range(2 * servers)]

            found[when] = measure(d, turns, when == "later", make)
    if options.json:
        print(json.dumps({"d": d, "servers": servers, "turns": turns, "pace": options.pace, "found": found}))
        return
    print(f"d = {d}, {servers} servers of each kind, {turns} turns: microseconds in the two kinds of world")
    print("(standard deviation between servers of a kind); how often one of the second is the slower of two, and p")
    lines = [(when, *line) for when, kinds in found.items() for line in kinds.items()]
    for when, kind, clock, r in [(*line[:2], *one) for line in lines for one in line[2].items()]:
        (a, b), (da, db) = r["microseconds"], r["between_servers"]
        print(f"  {when:8s} {kind:8s} {clock:9s} {a:6d} ({da}) {b:6d} ({db})  {r['longer']:.2f}, p = {r['p']:.2g}")


if __name__ == "__main__":
    main()
