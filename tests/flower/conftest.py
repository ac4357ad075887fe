"""What the tests of the Flower apps share: rows, nodes in this process, and grids on which things go wrong."""

import importlib.util

import numpy as np
import pytest

if importlib.util.find_spec("flwr") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import exhume as ex
    from exhume.flower.book import MemoryBook
    from exhume.flower.client import Holder, client_app
    from exhume.flower.local import LocalGrid

D, C, ROWS = 12, 3, 20


def rows_of(nodes, seed=0):
    rng = np.random.default_rng(seed)
    return {node: (rng.standard_normal((ROWS, D)), rng.integers(0, C, ROWS)) for node in nodes}


def wanted(number):
    """What every node wants after a round: four more rows each time; from the third on the first two are to go."""
    return range(2 if number >= 3 else 0, min(4 * number, ROWS))


class FaultyGrid(LocalGrid if importlib.util.find_spec("flwr") else object):
    """A grid on which chosen nodes misbehave: ``faults[node]`` makes what comes back of the one true answer."""

    def __init__(self, apps, faults):
        super().__init__(apps)
        self.faults = faults

    def _answers(self, node, message):
        true = list(super()._answers(node, message))
        fault = self.faults.get(node)
        yield from true if fault is None else fault(true[0], message)


@pytest.fixture
def nodes():
    """Four nodes with their rows."""
    return rows_of((11, 12, 13, 14))


@pytest.fixture
def apps(nodes):
    """Nodes that send grams written out: sums of those are NumPy's to the bit."""
    return {n: client_app(lambda _, rows=rows: Holder(*rows, C, wanted), dense=True) for n, rows in nodes.items()}


@pytest.fixture
def lean_apps(nodes):
    """Nodes that send few rows as a factor."""
    return {n: client_app(lambda _, rows=rows: Holder(*rows, C, wanted)) for n, rows in nodes.items()}


@pytest.fixture
def book():
    return MemoryBook(ex.Server(ex.Ledger.zeros(D, C, gamma=1e-2)))


def numpy_totals(nodes, rounds, lost=(), snap=None):
    """Play the same rounds with plain NumPy: sums of what is added, less sums of what is deleted.

    ``lost`` has (round, node) pairs whose message did not count.
    """
    gram, moment = np.zeros((D, D)), np.zeros((D, C))
    held = {node: set() for node in nodes}
    for number in range(1, rounds + 1):
        sums = {+1: None, -1: None}
        for node in sorted(nodes):
            if (number, node) in lost:
                continue
            now, features, labels = set(wanted(number)), *nodes[node]
            features = features if snap is None else np.rint(features / snap) * snap
            onehot = np.eye(C)[labels]
            for sign, rows in ((+1, sorted(now - held[node])), (-1, sorted(held[node] - now))):
                some = features[rows]
                part = (some.T @ some, some.T @ onehot[rows])
                sums[sign] = part if sums[sign] is None else tuple(a + b for a, b in zip(sums[sign], part, strict=True))
            held[node] = now
        for total, i in ((gram, 0), (moment, 1)):
            total += sums[+1][i] - sums[-1][i]
    return gram, moment
