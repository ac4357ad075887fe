"""What attacks of the matrix share: what they say in the end, and the best estimate of a state that a run allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from exhume.attack.block import Block
from exhume.attack.conditioned import gram_guess
from exhume.attack.identify import Diagnostics, State, identify
from exhume.attack.partial import identify_partial
from exhume.attack.symmetric import identify_symmetric
from exhume.attack.transcript import Transcript
from exhume.audit.advise.prober import Prober, Run
from exhume.errors import NotIdentifiedError
from exhume.numerics import Matrix
from exhume.protocol import Head

__all__ = ["Follow", "Guess", "Learn", "estimate", "guess_of_A", "state_of"]


@dataclass(frozen=True)
class Guess:
    """What an attacker says was deleted."""

    label: int
    feature: Matrix
    block: Block


Follow = Callable[[Prober], Guess | None]
"""The attack after the deletion, facing the federation as it then is."""

Learn = Callable[[Prober], Follow]


def state_of(A: Matrix, head: Head) -> State:
    """Return a state of which A and one head are known."""
    none = Diagnostics(len(A), 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return State(A, np.asarray(np.linalg.inv(A)), A @ head.weights, head, none)


def guess_of_A(prober: Prober) -> Matrix:
    """Return the attacker's guess of A without probing: its own gram, scaled to a training set of known size."""
    s = prober.federation.setting
    own = s.features[np.concatenate([s.own, s.held_out])]
    rows = sum(map(len, s.honest)) + len(s.own)
    return gram_guess(own, rows)


def estimate(prober: Prober, run: Run) -> State:
    """Make the best of a run: the state's estimate, its baseline without what the attacker had standing in it."""
    state = _estimate_raw(prober, run.transcript)
    if not run.offset.any():
        return state
    head = run.cleaned(state.A, state.baseline)
    return replace(state, baseline=head, G=state.A @ head.weights)


def _estimate_raw(prober: Prober, transcript: Transcript) -> State:
    """Take Algorithm 1 on exact heads, symmetric regression on others, a guess for what both leave open."""
    guess = guess_of_A(prober)
    try:
        if prober.federation.defence.exact and not prober.busy:
            return identify(transcript)
        return identify_symmetric(transcript, metric=guess)
    except (NotIdentifiedError, np.linalg.LinAlgError):
        pass
    try:
        part = identify_partial(transcript)
        A = part.completed(guess)
        if part.rank and np.linalg.eigvalsh(A)[0] > 0:
            return state_of(A, transcript.baseline)
    except np.linalg.LinAlgError:
        pass
    return state_of(guess, transcript.baseline)
