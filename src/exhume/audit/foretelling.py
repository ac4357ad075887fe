"""What a live run read, and the test of it: does the state foretell the answer to a probe that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exhume.attack import estimate, probes
from exhume.attack.probes import moment_update
from exhume.attack.state import State, alike
from exhume.attack.transcript import Transcript
from exhume.errors import NotIdentifiedError
from exhume.numerics import Matrix, Rows, relative
from exhume.protocol.head import Head
from exhume.protocol.summary import Summary, Update

__all__ = ["Reading", "read_state", "unseen"]

ESTIMATORS = ("direct", "symmetric", "ridges")
"""What is tried on the answers of one run, in this order: exact heads, inexact ones, a ridge chosen anew each time."""


@dataclass(frozen=True)
class Reading:
    """The best state that a run gave."""

    state: State | None
    estimator: str | None = None
    error: float | None = None
    """Relative error with which it foretold the answer."""
    reason: str | None = None
    """Why there is none."""


def unseen(transcript: Transcript, scale: float, own: tuple[Matrix, Rows], rng: np.random.Generator) -> Update:
    """Return a change that a run has not seen: a made-up moment, or half of the own rows."""
    if probes.REGISTRY[transcript.probe].live:
        units = 1.0 if transcript.coordinates is None else transcript.coordinates.units[:, None]
        size = scale / np.sqrt(transcript.c)  # made-up rows of all classes add up in the gram
        return moment_update(size * units * rng.standard_normal((transcript.d, transcript.c)))
    features, labels = own
    half = rng.permutation(len(labels))[: (len(labels) + 1) // 2]
    return Update.adding(Summary.of(features[half], labels[half], transcript.c))


def read_state(transcript: Transcript, update: Update, answer: Head) -> Reading:
    """Identify the state by every estimator, and keep what foretells the answer to an unseen update best."""
    found: list[Reading] = []
    reason = None
    for name in ESTIMATORS:
        try:
            state = estimate.REGISTRY[name](transcript)
            found.append(Reading(state, name, _error(state, update, answer, ridge=name == "ridges")))
        except (NotIdentifiedError, np.linalg.LinAlgError) as error:
            reason = reason or str(error)
    if not found:
        return Reading(None, reason=reason)
    return min(found, key=lambda reading: np.inf if reading.error is None else reading.error)


def _error(state: State, update: Update, answer: Head, *, ridge: bool) -> float:
    """Return the relative error of the foretold change of the head, on the coordinates that the state knows."""
    state, seen = alike(state, answer)
    live = np.arange(state.d) if state.live is None else state.live
    A, G = state.A.copy(), state.G.copy()
    A[np.ix_(live, live)] += update.net.gram[np.ix_(live, live)]
    G[live] += update.net.moment[live]
    if ridge:
        # Another ridge for this answer too: the t that its own equation (A + t I) W = G shows.
        rest = G - A @ seen.weights
        t = float(np.vdot(rest, seen.weights) / max(float(np.vdot(seen.weights, seen.weights)), 1e-300))
        A = A + t * np.eye(len(A))
    change = seen.weights - state.baseline.weights
    return relative(np.linalg.solve(A, G) - state.baseline.weights - change, change)
