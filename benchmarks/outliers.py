"""What the limit on outliers cuts: of honest records next to nothing, of rows made to weigh most of what they weigh.

The mu of every training record in the measure of all of them, at the default noise, in those of an average record
(`exhume.defence.default.OUTLIER` is a limit on it); how many records the limit cuts; and the mu of the longest rows
that bounds let in, one along each feature (`identity-blocks` of `exhume advise`), uncut.

    python benchmarks/outliers.py [--data digits mnist cifar10]

MNIST and CIFAR-10 need ResNet-18 features (EXHUME_DATA_PATH, or `exhume data features`).
"""

import argparse

import numpy as np
from threadpoolctl import threadpool_limits

from exhume.data import load_features
from exhume.defence import Bounds, sigma_for
from exhume.defence.default import CAP, OUTLIER, before_gram, spread_for
from exhume.defence.release import ContinualNoise
from exhume.defence.release._epoch import EpochMeasure
from exhume.defence.release._figures import record_sizes
from exhume.protocol import Batch, Summary

GAMMA, BLOCK = 1e-3, 5000
ENCODERS = {"digits": [("random-relu", dim) for dim in (64, 128, 256)]}


def line(name, encoder, dim):
    found = load_features(name, encoder, dim=dim)
    features, labels = np.asarray(found.train_features, dtype=float), found.train_labels
    rows, d = features.shape
    total = Summary.of(features, labels, found.classes)
    measure = EpochMeasure.of(total.gram + GAMMA * np.eye(d), total.moment)
    spread = spread_for(rows, d)
    rule = ContinualNoise(before_gram(sigma_for(rows, d), spread), spread=spread, cap=CAP, outlier=OUTLIER)

    def mu(features, labels):
        return rule._figures.mu(d, *record_sizes(*measure.records(Batch(features, labels))))

    every = np.concatenate([mu(features[i : i + BLOCK], labels[i : i + BLOCK]) for i in range(0, rows, BLOCK)])
    limit = rule._figures.limit(measure)
    longest = Bounds.measure(features, client_rows=rows).longest
    made = mu(longest * np.eye(d), np.zeros(d, dtype=int))
    shown = [f"{value:.1f}" for value in (np.median(every), np.quantile(every, 0.999), every.max(), limit)]
    return [
        f"{name}, {d}",
        f"{rows:,}",
        f"{measure.rows:,.0f}",
        *shown,
        str(int((every > limit).sum())),
        f"{np.median(made):.0f}",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["digits"], choices=["digits", "mnist", "cifar10"])
    options = parser.parse_args()
    names = [
        "data, features",
        "rows",
        "rows in the measure",
        "median mu",
        "99.9%",
        "largest",
        "limit",
        "records cut",
        "longest rows",
    ]
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    with threadpool_limits(1):
        for name in options.data:
            for encoder, dim in ENCODERS.get(name, [("resnet18", None)]):
                print(f"| {' | '.join(line(name, encoder, dim))} |", flush=True)


if __name__ == "__main__":
    main()
