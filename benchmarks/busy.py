"""Labels and features read on a server that is never quiet, against the number of honest changes between answers.

Each run identifies a state by one probe sequence while honest clients delete and add single records (or batches of
``--batch``); `strategies.watch` reads the state and every change. Beside it, the error of the state if the changes
are ignored (`estimate.symmetric` on the same answers, as if the interval had been quiet).

    python benchmarks/busy.py                                          # digits, d = 128
    python benchmarks/busy.py --data mnist --encoder resnet18          # the paper's splits, with the features at hand
    python benchmarks/busy.py --data mnist --encoder resnet18 --batch 4 --events 10 --probes designed
    python benchmarks/busy.py --data mnist --encoder resnet18 --merged --events 20 --probes spare
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from exhume.attack import probes
from exhume.attack.estimate import gram_guess, symmetric
from exhume.attack.session import Attack
from exhume.attack.strategies.watch import listen, read
from exhume.attack.transcript import Transcript
from exhume.data import dirichlet, load_features, select_attacker
from exhume.errors import ExhumeError
from exhume.numerics import relative
from exhume.protocol import Summary, Update
from exhume.simulate.busy import BusyTarget, HonestPlan
from exhume.simulate.federation import Federation
from exhume.simulate.scenario import Scenario

GAMMA = 1e-3
WRONG = 0.1
"""A change whose gram is off by more than this share was not read, whatever the attacker's own check says."""


def probe_of(name, case, split):
    if name == "designed":
        return probes.designed(case.d, case.classes)
    if name == "spare":
        return probes.designed(case.d, case.classes, spare=1)
    responses = min(2 * math.ceil(case.d / case.classes), len(case.own[0]))
    return probes.own_data(*case.own, case.classes, responses=responses, rng=np.random.default_rng(split))


def planned(case, features, rng, responses, options, events):
    """Draw honest changes: half deletions of records in the ledger, half additions of records that are not."""
    size = options.batch
    gone = rng.choice(case.others, (events, size), replace=False)
    new = rng.choice(len(features.test_labels), (events, size), replace=False)
    when = np.sort(rng.integers(1, responses, events))
    if options.merged:
        when = np.sort(rng.choice(np.arange(1, responses), events, replace=False))
    truth, between, merged = [], {}, {}
    for i, at in enumerate(when):
        added = bool(i % 2)
        f, y = (
            (features.test_features[new[i]], features.test_labels[new[i]])
            if added
            else (case.features[gone[i]], case.labels[gone[i]])
        )
        block = Summary.of(f, y, case.classes)
        update = Update.adding(block) if added else Update.deleting(block)
        truth.append((added, f, y, block))
        if options.merged:
            merged[int(at)] = update
        else:
            between.setdefault(int(at), []).append(update)
    return truth, HonestPlan(between, merged)


def ignoring(watched, A, guess):
    """Error of A when the changes of others are taken for nothing: the paper's assumption on a busy server."""
    own = [b for b in watched.broadcasts if b.own]
    X = np.hstack([b.head.weights - watched.baseline.weights for b in own])
    Z = np.hstack([b.side - watched.side for b in own])
    try:
        state = symmetric(Transcript(watched.baseline, X, Z, len(own), None, "quiet", watched.moment_only), guess=guess)
    except (ExhumeError, np.linalg.LinAlgError):
        return None
    return relative(state.A - A, A)


def run(case, features, split, name, precision, events, options, seed):
    rng = np.random.default_rng([split, events, seed, options.batch])
    probe = probe_of(name, case, split)
    truth, plan = planned(case, features, rng, probe.responses, options, events)
    server = Federation.bare(case, precision).server
    A = server.ledger.summary.gram + case.gamma * np.eye(case.d)
    guess = gram_guess(case.own[0], len(case.features))
    attack = Attack(BusyTarget(server, plan))
    watched = listen(attack, probe)
    started = time.perf_counter()
    out = {"answers": watched.answers, "events": len(truth)}
    try:
        seen = read(watched, nonnegative=bool(case.features.min() >= 0), guess=guess)
    except (ExhumeError, np.linalg.LinAlgError) as error:
        return out | {"failed": str(error)[:100]}
    out |= {"seconds": time.perf_counter() - started, "state_error": relative(seen.state.A - A, A)}
    out |= {"ignored_error": ignoring(watched, A, guess), "seen": len(seen.events), "rounds": seen.fit.rounds}
    if len(seen.events) != len(truth):
        return out | {"failed": f"{len(seen.events)} of {len(truth)} changes seen"}
    tally = [score(event, *true) for event, true in zip(seen.events, truth, strict=True)]
    return out | {key: [t[key] for t in tally] for key in tally[0]}


def score(event, added, f, y, block):
    one = len(y) == 1
    return {
        "added": added,
        "label": bool(one and event.found.label == y[0]),
        "direction": event.direction == ("added" if added else "deleted"),
        "feature": relative(event.found.feature - f[0], f[0]) if one and event.found.feature is not None else None,
        "gram": relative(event.found.block.gram - block.gram, block.gram),
        "moment": relative(event.found.block.moment - block.moment, block.moment),
        "known": bool(event.found.known),
    }


def scenario(options, features, split):
    parts = dirichlet(features.train_labels, options.clients, options.alpha, split)
    attacker = select_attacker(features.train_features, parts)
    return Scenario(features.train_features, features.train_labels, features.classes, parts, attacker, GAMMA)


def summarise(rows):
    done = [r for r in rows if "failed" not in r]
    flat = {k: [v for r in done for v in r[k]] for k in ("added", "label", "direction", "feature", "gram", "known")}
    gone = [i for i, a in enumerate(flat["added"]) if not a]
    lost = [r for r in rows if "failed" in r]
    errors = [e for e, right in zip(flat["feature"], flat["label"], strict=True) if right]
    return {
        "runs": len(rows),
        "failed": len(lost),
        "deletions": len(gone) + sum((r["events"] + 1) // 2 for r in lost),
        "labels_of_deletions": sum(flat["label"][i] for i in gone),
        "events": sum(r["events"] for r in rows),
        "labels": sum(flat["label"]),
        "directions": sum(flat["direction"]),
        "known": sum(flat["known"]),
        "known_and_wrong": sum(k and g > WRONG for k, g in zip(flat["known"], flat["gram"], strict=True)),
        "median_feature_error": float(np.median(errors)) if errors else None,
        "median_gram_error": float(np.median(flat["gram"])) if flat["gram"] else None,
        "median_state_error": float(np.median([r["state_error"] for r in done])) if done else None,
        "median_ignored_error": float(np.median([r["ignored_error"] or np.inf for r in done])) if done else None,
        "answers": rows[0]["answers"],
        "seconds": float(np.median([r["seconds"] for r in done])) if done else None,
    }


def work(options, features):
    """Yield one summary a cell; runs that a file of earlier ones has are not played again."""
    kept = {}
    path = Path(options.keep) if options.keep else None
    if path is not None and path.exists():
        kept = {json.dumps(k): v for k, v in map(json.loads, path.read_text().splitlines())}
    cases = {split: scenario(options, features, split) for split in options.splits}
    for precision in options.heads:
        for name in options.probes:
            for events in options.events:
                rows, seed = [], 0
                while sum((r["events"] + 1) // 2 for r in rows) < options.deletions:
                    split = options.splits[seed % len(options.splits)]
                    key = [options.data, split, name, precision, events, options.batch, options.merged, seed]
                    if json.dumps(key) not in kept:
                        with threadpool_limits(1):
                            row = run(cases[split], features, split, name, precision, events, options, seed)
                        kept[json.dumps(key)] = row
                        if path is not None:
                            with path.open("a") as file:
                                file.write(json.dumps([key, row]) + "\n")
                    rows.append(kept[json.dumps(key)])
                    seed += 1
                yield {"probe": name, "heads": precision, "events_per_run": events} | summarise(rows)


def show(r):
    def short(x):
        return "-" if x is None else f"{x:.1e}"

    print(
        f"  {r['probe']:9s} {r['heads']:8s} {r['events_per_run']:3d} events in {r['answers']} answers, {r['runs']} runs"
        f" ({r['failed']} failed): A {short(r['median_state_error'])} (ignored {short(r['median_ignored_error'])}),"
        f" labels of deletions {r['labels_of_deletions']}/{r['deletions']}, of all {r['labels']}/{r['events']},"
        f" directions {r['directions']}, feature {short(r['median_feature_error'])}, gram"
        f" {short(r['median_gram_error'])}, sure {r['known']}, wrongly {r['known_and_wrong']}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--encoder", default="random-relu")
    parser.add_argument("--dim", type=int, default=None)
    parser.add_argument("--clients", type=int, default=None, help="default: 50, or 3 for digits")
    parser.add_argument("--alpha", type=float, default=None, help="default: 0.05, or 3 for digits")
    parser.add_argument("--deletions", type=int, default=100, help="honest deletions a cell")
    parser.add_argument("--events", type=int, nargs="+", default=[5, 20, 40])
    parser.add_argument("--batch", type=int, default=1, help="records an event")
    parser.add_argument("--merged", action="store_true", help="changes come in one broadcast with the attacker's own")
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--probes", nargs="+", default=["designed", "own-data"])
    parser.add_argument("--heads", nargs="+", default=["float64", "float32"])
    parser.add_argument("--keep", default=None, help="a file of finished runs, to go on where a run stopped")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    small = options.data == "digits"
    options.clients = options.clients or (3 if small else 50)
    options.alpha = options.alpha or (3.0 if small else 0.05)
    options.dim = options.dim or (128 if small else None)
    features = load_features(options.data, options.encoder, dim=options.dim)
    if not options.json:
        print(f"{options.data}, {options.encoder}, d = {features.dim}, batches of {options.batch}")
    rows = []
    for row in work(options, features):
        rows.append(row)
        if not options.json:
            show(row)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
