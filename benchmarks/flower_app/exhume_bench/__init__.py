"""The rounds that `benchmarks/flower.py` measures, for its own process and for those of a deployment."""

import numpy as np

CLASSES, GAMMA = 10, 1e-3
STEP = 2.0**-8
"""Features are multiples of it: grams add without error in any order, so a ledger's hash does not tell who came first.
"""


def rows_of(node, d, rows, rounds):
    """Return all rows of one node with their labels."""
    rng = np.random.default_rng([node, d])
    return np.rint(rng.random((rows * rounds, d)) / STEP) * STEP, rng.integers(0, CLASSES, rows * rounds)


def wanted(number, rows):
    """Return the rows that a node wants in the ledger: every round some more, and from the second on one less."""
    return range(number - 1, rows * number)
