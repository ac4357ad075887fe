"""Whether the time that the hardened server takes for one client's messages tells that client anything of others.

Two kinds of world differ in other clients' data and deletions alone: single records come and go, or up to 16 at a time,
as long as allowed, which the cap cuts. Of each kind there are several servers, since no two lie alike in memory: their
rows are drawn apart. In all a client sends the same messages: a record comes, goes, and is asked to go again, which is
refused. Servers take turns, in an order drawn by lot for each message, so that a busy machine slows all.

The client takes the median of all times that a server took for a kind of message, and guesses the world from it: how
often a server of the second kind is the slower of two (0.5 is chance), with the probability that servers of one kind
come out so far from it (Mann and Whitney, exact). Once the message comes at once after somebody else's, whose work is
then still in the processor's caches, and once (`later`) after something else has run.

    python benchmarks/timing_oracle.py [--dim 512] [--servers 8] [--turns 20] [--json]
"""

import argparse
import json
import time

import numpy as np
from scipy.stats import mannwhitneyu
from threadpoolctl import threadpool_limits

import exhume as ex
from exhume.defence import Bounds
from exhume.protocol import Ledger, Summary, itemise

C, GAMMA, MOST = 10, 1e-3, (1, 16)
KINDS = ("comes", "goes", "refused")
ELSE = 2**22
"""Numbers that something else reads and writes: more than a cache holds."""


class World:
    """A hardened server with other clients behind it."""

    def __init__(self, d, seed, most, bounds):
        self.rng, self.d, self.most, self.bounds = np.random.default_rng([seed, 1]), d, most, bounds
        start = self.rows(4 * d)
        self.server = ex.hardened(
            Ledger(Summary.of(*start, C), GAMMA), bounds=bounds, rows=4 * d, key=f"{seed:02x}" * 16
        )
        self.server.head()
        self.standing = []

    def rows(self, count):
        made = self.rng.standard_normal((count, self.d)).clip(0)
        return made, self.rng.integers(0, C, count)

    def others_act(self):
        """Let somebody else send one message: rows come, up to `most` of them, some as long as allowed, or go."""
        if self.standing and self.rng.random() < 0.5:
            message = {"delete": self.standing.pop(int(self.rng.integers(len(self.standing))))}
        else:
            made, labels = self.rows(int(self.rng.integers(1, self.most + 1)))
            if self.most > 1:
                made *= (self.bounds.longest / np.linalg.norm(made, axis=1))[:, None]
            self.standing.append((made, labels))
            message = {"add": self.standing[-1]}
        assert self.server.submit(itemise(C, **message), "somebody").accepted


def timed(server, message):
    wall, spent = time.perf_counter(), time.process_time()
    receipt = server.submit(message, "mallory")
    return time.process_time() - spent, time.perf_counter() - wall, receipt.accepted


def measure(d, servers, turns, later):
    rng, something = np.random.default_rng(0), np.ones(ELSE)
    own = rng.standard_normal((turns, d)).clip(0), rng.integers(0, C, turns)
    bounds = Bounds.measure(own[0], client_rows=100 * turns + 4 * d)
    worlds = [World(d, seed, MOST[seed % 2], bounds) for seed in range(2 * servers)]
    found = {kind: np.empty((turns, len(worlds), 2)) for kind in KINDS}
    for turn in range(turns):
        row = (own[0][[turn]], own[1][[turn]])
        messages = {"comes": itemise(C, add=row), "goes": itemise(C, delete=row), "refused": itemise(C, delete=row)}
        for kind in KINDS:
            for i in rng.permutation(len(worlds)):
                worlds[i].others_act()
                if later:
                    something += 1.0
                *times, accepted = timed(worlds[i].server, messages[kind])
                assert accepted is (kind != "refused")
                found[kind][turn, i] = times
    clocks = ("processor", "wall")
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
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    size = (options.dim, options.servers, options.turns)
    with threadpool_limits(1):
        found = {when: measure(*size, when == "later") for when in ("at once", "later")}
    if options.json:
        print(json.dumps({"d": size[0], "servers": size[1], "turns": size[2], "found": found}))
        return
    print(f"d = {size[0]}, {size[1]} servers of each kind, {size[2]} turns: microseconds in the two kinds of world")
    print("(standard deviation between servers of a kind); how often one of the second is the slower of two, and p")
    lines = [(when, *line) for when, kinds in found.items() for line in kinds.items()]
    for when, kind, clock, r in [(*line[:2], *one) for line in lines for one in line[2].items()]:
        (a, b), (da, db) = r["microseconds"], r["between_servers"]
        print(f"  {when:8s} {kind:8s} {clock:9s} {a:6d} ({da}) {b:6d} ({db})  {r['longer']:.2f}, p = {r['p']:.2g}")


if __name__ == "__main__":
    main()
