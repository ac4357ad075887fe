"""Small problems with dyadic entries, and float transcripts of exact ones."""

import math

import numpy as np
from hypothesis import strategies as st

from exhume import Head, Summary
from exhume.attack.theory.bounds import ProbeRun
from exhume.attack.state import diagnose_rank
from exhume.attack.transcript import Recorder
from exhume.protocol import round_to
from tests.attack import exact as ex

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
    """Return a run for `exhume.attack.bounds`: hidden values beside the transcript and its raw estimates."""
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
