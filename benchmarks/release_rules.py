"""What each release rule leaves of the attack, and what it costs, on the bundled digits.

The server holds all training rows. The attacker probes with random moment changes, then with rows of its own that the
server has never seen, identifies the state, and reads the label of every deleted record from the head after its
deletion (`rank_one`; 10 classes, so chance is 10%). It knows the rule: columns that are not released are left out of
its stack, a gate that counts changes gets every message in parts, one that counts clients gets a helper's part.

    python benchmarks/release_rules.py [--dim 64] [--trials 60] [--json]
"""

import argparse
import json

import numpy as np
from threadpoolctl import threadpool_limits

from exhume.attack.estimate import direct
from exhume.attack.probes import own_data, random
from exhume.attack.recover import rank_one
from exhume.attack.session import Attack
from exhume.attack.transcript import Transcript
from exhume.data import load_features
from exhume.defence.release import (
    Chain,
    Columns,
    EveryKChanges,
    Heads,
    IsotropicNoise,
    LowRank,
    MinClients,
    PosteriorNoise,
    ResponseBudget,
    TopEigenspace,
)
from exhume.errors import ExhumeError
from exhume.protocol import Ledger, Server, Summary, Update

GAMMA = 1e-3
RULES = {
    "Heads('float64')": lambda d: Heads("float64"),
    "Heads('float32')": lambda d: Heads("float32"),
    "Heads('bfloat16')": lambda d: Heads("bfloat16"),
    "EveryKChanges(4)": lambda d: EveryKChanges(4),
    "MinClients(2)": lambda d: MinClients(2),
    "MinClients(2), helper": lambda d: MinClients(2),
    "ResponseBudget(d/(2c))": lambda d: ResponseBudget(max(d // 20, 1)),
    "Columns(half)": lambda d: Columns(range(5)),
    "LowRank(5)": lambda d: LowRank(5),
    "TopEigenspace(3d/4)": lambda d: TopEigenspace(3 * d // 4),
    "IsotropicNoise(1e-3)": lambda d: IsotropicNoise(1e-3, b"0" * 32),
    "PosteriorNoise(0.1)": lambda d: PosteriorNoise(0.1, b"0" * 32),
    "PosteriorNoise(0.1), float32": lambda d: Chain([PosteriorNoise(0.1, b"0" * 32), Heads("float32")]),
}
SPLITS = {"EveryKChanges(4)": (("mallory",), 4), "MinClients(2), helper": (("mallory", "helper"), 2)}


class Splitting:
    """A target for somebody who sends every message in parts, under one or more names, and reads the last head."""

    def __init__(self, server, names, parts):
        self._server, self._names, self._parts = server, names, parts

    def head(self):
        return self._server.head()

    def submit(self, update):
        part = Update(share(update.add, self._parts), share(update.delete, self._parts))
        for turn in range(self._parts):
            self._server.submit(part, self._names[turn % len(self._names)])
        return self._server.head()


def share(summary, parts):
    return Summary(summary.gram / parts, summary.moment / parts)


def seen(transcript):
    """Return the transcript without the columns that were never released."""
    kept = np.linalg.norm(transcript.X, axis=0) > 0
    t = transcript
    return Transcript(t.baseline, t.X[:, kept], t.Z[:, kept], t.responses, t.final, t.probe, t.moment_only)


def labels_read(found, rule, probe, rows, split):
    """Return the share of labels that the attacker reads, or why it has no state."""
    d, c = found.dim, found.classes
    total = Summary.of(found.train_features, found.train_labels, c)
    server = Server(Ledger(total, GAMMA), release=rule(d))
    server.head()
    target = Splitting(server, *split)
    try:
        state = direct(seen(Attack(target).run(probe)))
    except ExhumeError as error:
        return None, str(error).split(":")[0]
    hits = 0
    for row in rows:
        gone = Summary.of(found.train_features[[row]], found.train_labels[[row]], c)
        after = Server(Ledger(total - gone, GAMMA), release=rule(d)).head()
        hits += rank_one(state, after, nonnegative=True).label == found.train_labels[row]
    return hits / len(rows), "identified"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    found = load_features("digits", "random-relu", dim=options.dim)
    rng = np.random.default_rng(0)
    rows = rng.choice(len(found.train_labels), options.trials, replace=False)
    d, c, m = found.dim, found.classes, 4 * -(-found.dim // found.classes)
    probes = {
        "moments": random(d, c, rng=rng, responses=m, scale=1e3),
        "own data": own_data(found.test_features, found.test_labels, c, responses=m, rng=rng),
    }
    exact = Server(Ledger(Summary.of(found.train_features, found.train_labels, c), GAMMA)).head()
    reference = exact.accuracy(found.test_features, found.test_labels)
    out = []
    with threadpool_limits(1):
        for name, rule in RULES.items():
            row = {"rule": name}
            for kind, probe in probes.items():
                split = SPLITS.get(name, (("mallory",), 1))
                row[kind] = labels_read(found, rule, probe, rows, split)
            head = Server(
                Ledger(Summary.of(found.train_features, found.train_labels, c), GAMMA), release=rule(d)
            ).head()
            row["points lost"] = 100 * (reference - head.accuracy(found.test_features, found.test_labels))
            out.append(row)
    if options.json:
        print(json.dumps({"d": d, "trials": options.trials, "rules": out}))
        return
    print(f"digits, d = {d}, {options.trials} deletions, accuracy {100 * reference:.2f}%; labels read after each probe")
    for row in out:
        shown = [f"{100 * row[k][0]:5.0f}%" if row[k][0] is not None else row[k][1][:44] for k in probes]
        print(f"  {row['rule']:30} {shown[0]:46} {shown[1]:46} {row['points lost']:6.2f}")


if __name__ == "__main__":
    main()
