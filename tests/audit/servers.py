"""Servers that are not ours, behind the adapter that an operator would write: inexact, forgetful, gone."""

import numpy as np
from sklearn.datasets import load_digits

from exhume import Head, Ledger, Server, Summary
from exhume.errors import RefusedError

RIDGES = 10.0 ** np.arange(-8, 5)


def relu_digits(d=64, scale=1.0, seed=0):
    """Return random ReLU features of the bundled digits."""
    digits = load_digits()
    projection = np.random.default_rng(seed).standard_normal((64, d))
    return scale * np.maximum(digits.data / 16 @ projection, 0.0), digits.target


class RanPAC32:
    """A continual learner in float32 that keeps sums and chooses its ridge on held-out rows, as RanPAC does."""

    def __init__(self, features, labels, classes=10, *, ridge=None, halves=False):
        cut = int(0.8 * len(labels))
        self.held = features[cut:].astype(np.float32), labels[cut:]
        d = features.shape[1]
        self.gram, self.sums = np.zeros((d, d), np.float32), np.zeros((d, classes), np.float32)
        self.ridge, self.halves = ridge, halves
        first = Summary.of(features[:cut], labels[:cut], classes)
        self.gram += first.gram.astype(np.float32)
        self.sums += first.moment.astype(np.float32)
        self.weights = self.solved()

    def solved(self):
        eye = np.eye(len(self.gram), dtype=np.float32)
        if self.ridge is not None:
            return np.linalg.solve(self.gram + np.float32(self.ridge) * eye, self.sums)
        features, labels = self.held
        tried = [np.linalg.solve(self.gram + np.float32(r) * eye, self.sums) for r in RIDGES]
        hits = [np.mean((features @ W).argmax(axis=1) == labels) for W in tried]
        return tried[int(np.argmax(hits))]

    def merge(self, update):
        if self.halves:  # each side of an update as it comes
            self.gram += update.add.gram.astype(np.float32)
            self.gram -= update.delete.gram.astype(np.float32)
            self.sums += update.add.moment.astype(np.float32)
            self.sums -= update.delete.moment.astype(np.float32)
        else:
            self.gram += update.net.gram.astype(np.float32)
            self.sums += update.net.moment.astype(np.float32)
        self.weights = self.solved()


class Adapter:
    """What an operator writes around it."""

    def __init__(self, server):
        self.server = server

    def head(self):
        return Head(self.server.weights.astype(np.float64), "float32")

    def submit(self, update):
        self.server.merge(update)
        return self.head()


def small_server(d=12, c=3, gamma=1e-2):
    rng = np.random.default_rng(0)
    return Server(Ledger(Summary.of(rng.standard_normal((200, d)), rng.integers(0, c, 200), c), gamma))


class Flaky:
    """A target on which the n-th submission goes wrong in a chosen way."""

    def __init__(self, inner, at, how):
        self.inner, self.at, self.how, self.count = inner, at, how, 0

    def head(self):
        return self.inner.head()

    def submit(self, update):
        self.count += 1
        if self.count == self.at:
            return self.how(self.inner, update)
        return self.inner.submit(update)


def lost_before(inner, update):
    raise ConnectionError("the request was lost")


def lost_after(inner, update):
    inner.submit(update)
    raise ConnectionError("the answer was lost")


def refused(inner, update):
    raise RefusedError("too large")


def interrupted(inner, update):
    inner.submit(update)
    raise KeyboardInterrupt


def retried_blindly(inner, update):
    """What an adapter does that sends again when no answer came: here the first had arrived."""
    inner.submit(update)
    return inner.submit(update)


class Gone:
    """A target that cannot be reached from the n-th submission on, neither to submit nor to look; it can come back."""

    def __init__(self, inner, at, arrives=True):
        self.inner, self.at, self.arrives, self.count, self.down = inner, at, arrives, 0, False

    def head(self):
        if self.down:
            raise ConnectionError("no route to host")
        return self.inner.head()

    def submit(self, update):
        self.count += 1
        if self.count == self.at:
            self.down = True
            if self.arrives:
                self.inner.submit(update)
        if self.down:
            raise ConnectionError("no route to host")
        return self.inner.submit(update)
