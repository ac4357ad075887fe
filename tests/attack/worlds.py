"""The one world of the attack's tests: servers with data in them, small exact problems, and bounds on roundoff."""

import math

import numpy as np
from hypothesis import strategies as st

from exhume import Client, Head, Heads, Ledger, Server, Summary, Update
from exhume.attack.probes import Resources, designed, label_swap, own_data, random
from exhume.attack.session import Attack
from exhume.attack.state import State, diagnose_rank
from exhume.attack.theory.bounds import ProbeRun
from exhume.attack.transcript import Recorder
from exhume.protocol import round_to
from tests.attack import exact as ex

PROBES = ("designed", "random", "label-swap", "own-data")
"""Our own probes; what other packages bring is not theirs to test."""


def rows(seed, n, d, c):
    """Return features as an encoder with a rectifier makes them, and labels."""
    rng = np.random.default_rng(seed)
    return np.maximum(rng.normal(size=(n, d)) + 0.3, 0.0), rng.integers(0, c, n)


def clusters(seed, n, d, c):
    """Return rectified features around one centre a class, of unequal variance, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, c, n)
    centres = 2 * rng.standard_normal((c, d))
    mixing = rng.standard_normal((d, d)) / np.arange(1, d + 1) ** 0.5
    return np.maximum(rng.standard_normal((n, d)) @ mixing.T + centres[labels], 0.0), labels


class World:
    """A server, an honest client with its rows in the ledger, and a malicious client with rows of its own."""

    def __init__(
        self, d=24, c=4, n=80, own=None, *, seed=0, precision="float64", gamma=0.5, data=rows, inside=0, **options
    ):
        self.d, self.c, self.precision = d, c, precision
        self.features, self.labels = data(seed, n, d, c)
        self.own_features, self.own_labels = rows(seed + 1, own or 3 * d, d, c)
        self.others = np.arange(inside, n)
        """The rows of the ledger that are not the attacker's: it has the first ``inside`` of them in there."""
        if inside:
            self.own_features, self.own_labels = self.features[:inside], self.labels[:inside]
        self.server = Server(Ledger.zeros(d, c, gamma), release=Heads(precision), **options)
        self.honest = Client(self.server, "alice")
        self.honest.add(self.features, self.labels)
        self.target = self.server.as_target("mallory")
        self.attack = Attack(self.target)

    @property
    def A(self):
        return self.server.ledger.summary.gram + self.server.ledger.gamma * np.eye(self.d)

    @property
    def state(self):
        """The hidden state, with the head as it is released."""
        W = np.linalg.solve(self.A, self.server.ledger.summary.moment)
        return State.of(self.A, Head(round_to(W, self.precision), self.precision))

    def delete(self, *numbers):
        self.honest.delete(self.features[list(numbers)], self.labels[list(numbers)])

    def block(self, numbers):
        numbers = np.atleast_1d(numbers)
        return Summary.of(self.features[numbers], self.labels[numbers], self.c)

    def after(self, numbers):
        """A copy of the server after an honest deletion, and the attack facing it."""
        server = Server(self.server.ledger.copy(), release=Heads(self.precision))
        server.submit(Update.deleting(self.block(numbers)), "alice")
        return server, self.attack.facing(server.as_target("mallory"))

    def head_after(self, numbers):
        return self.after(numbers)[0].head()

    def probe(self, name, mode="cumulative", scale=100.0, responses=None, seed=7):
        rng = np.random.default_rng(seed)
        m = responses or 2 * -(-self.d // self.c)
        if name == "designed":
            return designed(self.d, self.c, scale=scale, mode=mode)
        if name == "random":
            return random(self.d, self.c, rng=rng, scale=scale, mode=mode, responses=m)
        if name == "label-swap":
            return label_swap(self.own_features, self.c, responses=responses)
        return own_data(self.own_features, self.own_labels, self.c, responses=m, rng=rng, mode=mode)

    def resources(self, **options):
        """What the malicious client has."""
        own = self.own_features, self.own_labels
        return Resources(self.d, self.c, *own, np.random.default_rng(0), **options)


def clustered(d=24, c=4, n=600, inside=150, *, seed=0, precision="float64"):
    """Return a world whose classes can be told apart, the attacker's rows among those in the ledger."""
    return World(d, c, n, seed=seed, precision=precision, gamma=1e-2, data=clusters, inside=inside)


def gap(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


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


EPS = float(np.finfo(np.float64).eps)

scales = st.sampled_from([0.25, 0.5, 1.0, 2.0])
gammas = st.sampled_from([0.125, 0.5, 1.0, 3.0])


@st.composite
def dyadic(draw, rows, columns, most=4):
    entries = draw(st.lists(st.integers(-most, most), min_size=rows * columns, max_size=rows * columns))
    return draw(scales) * np.array(entries, dtype=np.float64).reshape(rows, columns)


@st.composite
def batches(draw, d, c, least=1, most=6):
    n = draw(st.integers(least, most))
    labels = draw(st.lists(st.integers(0, c - 1), min_size=n, max_size=n))
    return draw(dyadic(n, d)), np.array(labels, dtype=np.intp)


@st.composite
def sizes(draw, most_d=5, most_c=3, least_c=1):
    return draw(st.integers(1, most_d)), draw(st.integers(least_c, most_c))


@st.composite
def servers(draw, d, c):
    return ex.Ridge.of(*draw(batches(d, c, most=7)), c, draw(gammas))


@st.composite
def full_totals(draw, d, c, extra=2):
    """Totals whose stack has rank d by construction: an invertible triangle in the first columns."""
    m = math.ceil(d / c) + draw(st.integers(0, extra))
    stack = draw(dyadic(d, m * c))
    stack[:, :d] = np.triu(stack[:, :d], 1) + np.diag(draw(st.lists(st.integers(1, 4), min_size=d, max_size=d)))
    order = draw(st.permutations(range(m)))
    return [stack[:, j * c : (j + 1) * c].copy() for j in order]


@st.composite
def deficient_totals(draw, d, c):
    """Totals whose stack has rank below d: all columns in the span of d - 1 vectors."""
    m = draw(st.integers(1, math.ceil(d / c) + 2))
    basis = draw(dyadic(d, d - 1)) if d > 1 else np.zeros((1, 1))
    stack = basis @ draw(dyadic(basis.shape[1], m * c, most=2))
    return np.hsplit(stack, m)


def transcript_of(played, precision="float64"):
    """Return what an attacker records of an exact run whose heads are released in a number format."""
    recorder = Recorder(released(played.start.head, precision), "exact")
    last_gram, last_moment = ex.zeros(played.start.d, played.start.d), played.moments[0] * 0
    for gram, moment, head in zip(played.grams, played.moments, played.heads, strict=True):
        recorder.sent(Summary(ex.floats(gram - last_gram), ex.floats(moment - last_moment)))
        recorder.heard(released(head, precision))
        last_gram, last_moment = gram, moment
    return recorder.transcript(released(played.end.head, precision))


def released(head, precision="float64"):
    return Head(round_to(ex.floats(head), precision), precision)


def probe_run(played, transcript):
    """Return a run for `exhume.attack.theory.bounds`: hidden values beside the transcript and its raw estimates."""
    _, factor_X, factor_Z = diagnose_rank(transcript)
    grams = [ex.floats(gram) for gram in played.grams]
    return ProbeRun(
        A=ex.floats(played.start.A),
        baseline=ex.floats(played.start.head),
        heads=[ex.floats(head) for head in played.heads],
        grams=grams if any(gram.any() for gram in grams) else None,
        transcript=transcript,
        raw_A=factor_X.right_divide(transcript.Z)[0],
        raw_H=factor_Z.right_divide(transcript.X)[0],
    )


def norm(a, order=None):
    return float(np.linalg.norm(a, order))


def low(a):
    return float(np.linalg.svd(a, compute_uv=False)[-1])


def roundoff(*terms, size):
    """Return the roundoff of a sum of products of inner length ``size``: Higham's gamma_n with room for a few sums."""
    return 10 * size * EPS * sum(terms)


def estimate_roundoff(A, grams, heads, X, Z):
    """Return a bound on the float64 error of ``Z X^+`` from correctly rounded heads.

    Rounding the heads moves the equation by ``B`` (response-rounding identity), forming the stacks and the backward
    error of Householder QR move it by about as much again; dividing by the smallest singular value gives the error.
    """
    largest = norm(A) + max((norm(P) for P in grams), default=0.0)
    moved = largest * (norm(np.hstack(heads)) + norm(X)) + norm(Z)
    return roundoff(moved, size=X.shape[1] + X.shape[0]) / low(X)


def error_of(rhs, stack, answer):
    """Return a bound on what two backward-stable solves of ``answer stack = rhs`` may differ by."""
    kappa = norm(stack) / low(stack)
    return roundoff((norm(rhs) + norm(answer) * norm(stack)) * kappa / low(stack), size=1)
