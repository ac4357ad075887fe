"""A small federation with a known hidden state, for tests of estimators."""

import numpy as np

from exhume import Head, Heads, Ledger, Server, Summary, Update
from exhume.attack.session import Attack
from exhume.protocol import round_to

GAMMA = 1e-2


class Federation:
    def __init__(self, d=24, c=4, rows=600, own=150, seed=0, heads="float64"):
        rng = np.random.default_rng(seed)
        self.d, self.c, self.heads, self.rng = d, c, heads, rng
        self.y = rng.integers(0, c, rows)
        centres = 2 * rng.standard_normal((c, d))
        mixing = rng.standard_normal((d, d)) / np.arange(1, d + 1) ** 0.5
        self.F = np.maximum(rng.standard_normal((rows, d)) @ mixing.T + centres[self.y], 0.0)
        self.own = np.arange(own)
        self.others = np.arange(own, rows)
        self.total = Summary.of(self.F, self.y, c)
        self.A = self.total.gram + GAMMA * np.eye(d)
        self.server = Server(Ledger(self.total, GAMMA), release=Heads(heads))
        self.attack = Attack(self.server.as_target("mallory"))

    def block(self, rows):
        rows = np.atleast_1d(rows)
        return Summary.of(self.F[rows], self.y[rows], self.c)

    def after(self, rows):
        """The server, and the attack facing it, after an honest deletion of some rows from the present ledger."""
        server = Server(self.server.ledger.copy(), release=Heads(self.heads))
        server.submit(Update.deleting(self.block(rows)), "honest")
        return server, self.attack.facing(server.as_target("mallory"))

    def head_after(self, rows):
        return self.after(rows)[0].head()

    def true_head(self):
        return Head(round_to(np.linalg.solve(self.A, self.total.moment), self.heads), self.heads)


def gap(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))
