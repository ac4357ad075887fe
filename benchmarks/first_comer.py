"""What a client that comes before everybody else does to the hardened server's heads, on digits.

The noise is shaped by a public measure. Where the operator gives public rows it is theirs; where not, it is what the
first submissions bring (`founding`), or what came so far, which the operator must say (`grows`). Rows of next to no
length that come first make a measure of next to nothing: ordinary records are then cut at the cap. Public rows are
others than everybody's. Accuracy is the mean over heads after all honest rows.

    python benchmarks/first_comer.py [--dim 128] [--heads 40]
"""

import argparse

import numpy as np
from threadpoolctl import threadpool_limits

import exhume as ex
from exhume.data import load_features

MESSAGES, LENGTH, PUBLIC = 15, 1e-3, 300
SETTINGS = {"nothing": {"grows": True}, "founding = 15": {"founding": MESSAGES}, "public rows": {}}


def accuracy(found, name, first, heads):
    """Return the mean accuracy after `first` tiny rows, then everybody's."""
    public = found.train_features[:PUBLIC], found.train_labels[:PUBLIC]
    features, labels = found.train_features[PUBLIC:], found.train_labels[PUBLIC:]
    options = SETTINGS[name] | ({"public": public} if name == "public rows" else {})
    bounds = ex.defence.Bounds.measure(public[0], client_rows=len(features), margin=2.0)
    ledger = ex.Ledger.zeros(features.shape[1], found.classes, gamma=1e-3)
    server = ex.hardened(ledger, bounds=bounds, rows=len(features), key="ab" * 16, **options)
    rng = np.random.default_rng(1)
    early = ex.Client(server, "mallory", show_rows=True)
    for i in range(first):
        early.add(LENGTH * rng.random((1, features.shape[1])), [i % found.classes])
    for j in range(MESSAGES):
        ex.Client(server, f"client {j}", show_rows=True).add(features[j::MESSAGES], labels[j::MESSAGES])
    late = ex.Client(server, "late", show_rows=True)
    seen = [late.add(features[i : i + 1], labels[i : i + 1]).head for i in range(heads)]
    return np.mean([head.accuracy(found.test_features, found.test_labels) for head in seen])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--heads", type=int, default=40, help="heads after all honest rows")
    options = parser.parse_args()
    found = load_features("digits", "random-relu", dim=options.dim)
    print(f"digits, {options.dim} features: accuracy in percent, by how many tiny rows came first")
    print("| the measure is of | 0 | 1 | 15 |\n|---|---|---|---|")
    with threadpool_limits(1):
        for name in SETTINGS:
            shown = [f"{100 * accuracy(found, name, first, options.heads):.1f}" for first in (0, 1, MESSAGES)]
            print(f"| {name} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
