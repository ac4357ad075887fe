"""What an attacker that spends events does to everybody's heads, on digits: a row of its own comes and goes, on and on.

Every event draws noise, and every epoch that events use up adds as much again as the one before, in twice the time. The
row is as long as bounds allow. Accuracy is the mean over heads at that time, in percent.

    python benchmarks/spent_events.py [--dim 64] [--horizons 1000 10] [--seeds 3]
"""

import argparse

import numpy as np
from threadpoolctl import threadpool_limits

import exhume as ex
from exhume.data import load_features
from exhume.protocol import itemise

CLIENTS, HEADS = 18, 20
TIMES = {1000: (0, 1000, 5000, 20_000, 64_000), 10: (0, 1000, 5000)}


def accuracies(found, horizon, times, seed):
    """Return the accuracy after so many events of the attacker's."""
    features, labels, d = found.train_features, found.train_labels, found.dim
    order = np.random.default_rng(seed).permutation(len(labels))
    bounds = ex.defence.Bounds.measure(features, client_rows=len(features))
    options = {"founding": CLIENTS, "horizon": horizon, "key": f"{seed:032x}"}
    server = ex.hardened(ex.Ledger.zeros(d, found.classes, 1e-3), bounds=bounds, rows=len(features), **options)
    for i, part in enumerate(np.array_split(order, CLIENTS)):
        ex.Client(server, f"client {i}", show_rows=True).add(features[part], labels[part])
    row = np.full((1, d), 0.99 * bounds.longest / np.sqrt(d)), [0]
    turns = [itemise(found.classes, add=row), itemise(found.classes, delete=row)]
    sent = 0
    for wanted in times:
        while sent < wanted:
            server.submit(turns[sent % 2], "mallory")
            sent += 1
        heads = [server.submit(turns[i % 2], "somebody").head for i in range(HEADS)]
        yield np.mean([head.accuracy(found.test_features, found.test_labels) for head in heads])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--horizons", type=int, nargs="+", default=[1000, 10], choices=list(TIMES))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    found = load_features("digits", "random-relu", dim=options.dim)
    with threadpool_limits(1):
        for horizon in options.horizons:
            times = TIMES[horizon]
            print(f"| horizon {horizon}, events spent | {' | '.join(f'{n:,}' for n in times)} |")
            print(f"|{'---|' * (1 + len(times))}")
            for seed in range(options.seeds):
                shown = [f"{100 * value:.1f}" for value in accuracies(found, horizon, times, seed)]
                print(f"| seed {seed} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
