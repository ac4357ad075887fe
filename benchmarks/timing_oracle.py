"""Whether the time that the hardened server takes for one client's messages tells that client anything of others.

Two worlds differ in other clients' data and deletions alone: other rows of as many messages, of other sizes, and in the
second others' outliers that the cap cuts. In both a client sends the same messages. Worlds take turns, in an order
drawn by lot for each message, so that a busy machine slows both. Of each kind of message the times of the two worlds
are compared: how often one of the second world took longer than one of the first (the area under the curve of a
threshold; 0.5 is chance), with a 95% interval from a bootstrap over the pairs, of processor time and of wall time. A
world is also guessed, message by message, by a threshold that was chosen on the first half of the messages: its share
of right guesses on the other half. Once the message comes at once after somebody else's, whose work is then still in
the processor's caches, and once (`later`) after something else has run.

    python benchmarks/timing_oracle.py [--dim 512] [--turns 150] [--json]
"""

import argparse
import json
import time

import numpy as np
from threadpoolctl import threadpool_limits

import exhume as ex
from exhume.defence import Bounds
from exhume.protocol import Ledger, Summary, itemise

C, GAMMA, DRAWS = 10, 1e-3, 2000
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


def measure(d, turns, later):
    something = np.ones(ELSE)
    rng = np.random.default_rng(0)
    own = rng.standard_normal((turns, d)).clip(0), rng.integers(0, C, turns)
    bounds = Bounds.measure(own[0], client_rows=100 * turns + 4 * d)
    worlds = [World(d, 1, 1, bounds), World(d, 2, 16, bounds)]
    found = {kind: np.empty((turns, 2, 2)) for kind in KINDS}
    for turn in range(turns):
        row = (own[0][[turn]], own[1][[turn]])
        messages = {"comes": itemise(C, add=row), "goes": itemise(C, delete=row), "refused": itemise(C, delete=row)}
        for kind in KINDS:
            for world in rng.permutation(2):
                worlds[world].others_act()
                if later:
                    something += 1.0
                *times, accepted = timed(worlds[world].server, messages[kind])
                assert accepted is (kind != "refused")
                found[kind][turn, world] = times
    return {kind: {name: compared(values[5:, :, i], rng) for i, name in enumerate(("processor", "wall"))}
            for kind, values in found.items()}  # fmt: skip


def compared(pairs, rng):
    """Return medians, the chance that the second world takes longer with its interval, and a threshold's guesses."""

    def longer(some):
        first = np.sort(some[:, 0])
        ends = [np.searchsorted(first, some[:, 1], side=side).sum() for side in ("left", "right")]
        return sum(ends) / (2 * len(some) ** 2)

    again = [longer(pairs[rng.integers(0, len(pairs), len(pairs))]) for _ in range(DRAWS)]
    half = len(pairs) // 2
    first, rest = pairs[:half], pairs[half:]
    cuts = np.sort(first.ravel())
    right = [np.mean([(first[:, 0] < cut).mean(), (first[:, 1] >= cut).mean()]) for cut in cuts]
    sides = [max(share, 1.0 - share) for share in right]
    best, turned = cuts[int(np.argmax(sides))], right[int(np.argmax(sides))] < 0.5
    guess = float(np.mean([(rest[:, 0] < best).mean(), (rest[:, 1] >= best).mean()]))
    low, high = np.quantile(again, [0.025, 0.975])
    return {
        "microseconds": [round(1e6 * float(m)) for m in np.median(pairs, axis=0)],
        "longer": float(longer(pairs)),
        "interval": [float(low), float(high)],
        "guessed": 1.0 - guess if turned else guess,
        "of": 2 * len(rest),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--turns", type=int, default=150)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    with threadpool_limits(1):
        found = {when: measure(options.dim, options.turns, when == "later") for when in ("at once", "later")}
    if options.json:
        print(json.dumps({"d": options.dim, "turns": options.turns, "found": found}))
        return
    print(f"d = {options.dim}, {options.turns} turns: median microseconds in the two worlds; chance that the second is")
    print("longer, 95% interval; right guesses of a threshold on the second half")
    lines = [(when, *line) for when, kinds in found.items() for line in kinds.items()]
    for when, kind, clock, r in [(*line[:2], *one) for line in lines for one in line[2].items()]:
        a, b = r["microseconds"]
        low, high = r["interval"]
        print(
            f"  {when:8s} {kind:8s} {clock:9s} {a:6d} {b:6d}  {r['longer']:.3f} ({low:.3f} to {high:.3f})"
            f"  {r['guessed']:.1%} of {r['of']}"
        )


if __name__ == "__main__":
    main()
