"""Servers with data in them, for attacks in float64."""

import numpy as np

from exhume import Client, Heads, Ledger, Server
from exhume.attack.probes import designed
from exhume.attack.probes import label_swap
from exhume.attack.probes import own_data
from exhume.attack.probes import random

PROBES = ("designed", "random", "label_swap", "own_data")


def rows(seed, n, d, c):
    """Return features as an encoder with a rectifier makes them, and labels."""
    rng = np.random.default_rng(seed)
    return np.maximum(rng.normal(size=(n, d)) + 0.3, 0.0), rng.integers(0, c, n)


class World:
    """A server, an honest client with its rows in the ledger, and a malicious client with rows of its own."""

    def __init__(self, d=24, c=4, n=80, own=None, *, seed=0, precision="float64", gamma=0.5, **options):
        self.d, self.c = d, c
        self.features, self.labels = rows(seed, n, d, c)
        self.own_features, self.own_labels = rows(seed + 1, own or 3 * d, d, c)
        self.server = Server(Ledger.zeros(d, c, gamma), release=Heads(precision), **options)
        self.honest = Client(self.server, "alice")
        self.honest.add(self.features, self.labels)
        self.target = self.server.as_target("mallory")

    @property
    def A(self):
        return self.server.ledger.summary.gram + self.server.ledger.gamma * np.eye(self.d)

    def delete(self, *numbers):
        self.honest.delete(self.features[list(numbers)], self.labels[list(numbers)])

    def probe(self, name, mode="cumulative", scale=100.0, responses=None):
        rng = np.random.default_rng(7)
        if name == "designed":
            return designed(self.d, self.c, scale=scale, mode=mode)
        if name == "random":
            m = responses or 2 * -(-self.d // self.c)
            return random(self.d, self.c, rng=rng, scale=scale, mode=mode, responses=m)
        if name == "label_swap":
            return label_swap(self.own_features, self.c, responses=responses)
        m = responses or 2 * -(-self.d // self.c)
        return own_data(self.own_features, self.own_labels, self.c, responses=m, rng=rng)


class Tap:
    """A target that notes every update, and the exact ledger after it."""

    def __init__(self, world):
        self._world = world
        self.updates, self.heads, self.ledgers = [], [], []

    def head(self):
        return self._world.target.head()

    def submit(self, update):
        head = self._world.target.submit(update)
        self.updates.append(update)
        self.heads.append(self._world.server.ledger.head())
        self.ledgers.append(self._world.server.ledger.summary)
        return head
