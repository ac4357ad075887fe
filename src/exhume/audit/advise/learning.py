"""What attacks of the matrix share: what they say in the end, and the best estimate of a state that a run allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from exhume.attack.block import Block
from exhume.attack.estimate import direct, gram_guess, partial, symmetric
from exhume.attack.recover import Recovered
from exhume.attack.state import State
from exhume.attack.transcript import Transcript
from exhume.audit.advise.prober import Prober, Run
from exhume.errors import NotIdentifiedError
from exhume.numerics import Matrix

__all__ = ["Follow", "Guess", "Learn", "estimate", "guess_of_A", "guessed"]


@dataclass(frozen=True)
class Guess:
    """What an attacker says was deleted."""

    label: int
    feature: Matrix
    block: Block


Follow = Callable[[Prober], Guess | None]
"""The attack after the deletion, facing the federation as it then is."""

Learn = Callable[[Prober], Follow]


def guessed(found: Recovered) -> Guess:
    """Return a recovered record as a guess."""
    assert found.label is not None and found.feature is not None
    return Guess(found.label, found.feature, found.block)


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
            return direct(transcript)
        return symmetric(transcript, guess=guess)
    except NotIdentifiedError:
        pass
    try:
        return partial(transcript, guess=guess)
    except NotIdentifiedError:
        return State.of(guess, transcript.baseline)
