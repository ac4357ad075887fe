"""What an attacker is, and what attackers share: the best estimate of a state that a run allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from exhume.attack import estimate as estimators
from exhume.attack.block import Block
from exhume.attack.recover import Recovered
from exhume.attack.state import State
from exhume.defence.bounds import Bounds
from exhume.errors import NotIdentifiedError
from exhume.numerics import Matrix
from exhume.protocol.head import Head
from exhume.simulate.prober import Harvest, Prober

__all__ = [
    "Attacker",
    "Follow",
    "Guess",
    "Learn",
    "best_estimate",
    "guess_of_A",
    "label_of_known",
    "named",
    "public_head",
    "room_of",
]


@dataclass(frozen=True, eq=False)
class Guess:
    """What an attacker says was deleted; without label and feature where it only puts a block back."""

    block: Block
    label: int | None = None
    feature: Matrix | None = None

    @classmethod
    def of(cls, found: Recovered) -> Guess:
        """Return what a recovery found."""
        return cls(found.block, found.label, found.feature)


Follow = Callable[[Prober], Guess | None]
"""The attack after the deletion, facing the federation as it then is."""

Learn = Callable[[Prober], Follow]
"""The attack before the deletion."""


@dataclass(frozen=True)
class Attacker:
    """A malicious client with a plan."""

    name: str
    about: str
    learn: Learn
    aim: Literal["read", "label", "replay", "burn"] = "read"
    """What it wants: to read what was deleted, to read the label of a record whose feature it knows, to put back a
    block that it was told, or to ruin the head or the service."""
    event: Literal["deletion", "addition"] = "deletion"
    """What is read: a record's deletion, or its coming (back) in, which the attacker lets happen (`Prober.happens`)."""
    quick: bool = False
    """Whether a quick matrix plays it."""


def named(prober: Prober, label: int) -> Guess:
    """Return the guess of a label for a feature that the attacker knows."""
    feature = prober.feature()
    return Guess(Block.of_sample(label, feature, prober.federation.scenario.classes), label, feature)


def label_of_known(change: Matrix, white: Matrix, head: Matrix, feature: Matrix) -> int:
    """Return the label of a known feature from a whitened change: its scores put back, the one-hot vector stands out.

    ``(L^-1 f)' L' (W - W_post) = f' A^-1 f (e_k - W_post' f)'``.
    """
    return int(np.argmax(white @ change + (white @ white) * (head.T @ feature)))


def guess_of_A(prober: Prober) -> Matrix:
    """Return the attacker's guess of A without probing: its own gram, scaled to a training set of known size."""
    s = prober.federation.scenario
    return estimators.gram_guess(s.features[s.known], sum(map(len, s.parts)))


def best_estimate(prober: Prober, harvest: Harvest) -> State:
    """Make the best of a run: the state's estimate, its baseline without what the attacker had standing in it."""
    state = _estimate(prober, harvest)
    if not harvest.offset.any():
        return state
    head = harvest.cleaned(state.A, state.baseline)
    return replace(state, baseline=head, G=state.A @ head.weights)


def _estimate(prober: Prober, harvest: Harvest) -> State:
    """Take Algorithm 1 on exact heads, symmetric regression on others, a guess for what both leave open."""
    guess, transcript = guess_of_A(prober), harvest.transcript
    try:
        if prober.federation.known.exact and not prober.busy:
            return estimators.direct(transcript)
        return estimators.symmetric(transcript, guess=guess)
    except (NotIdentifiedError, np.linalg.LinAlgError):
        pass
    try:
        return estimators.partial(transcript, guess=guess)
    except (NotIdentifiedError, np.linalg.LinAlgError):
        return State.of(guess, transcript.baseline)


def public_head(prober: Prober, A: Matrix, since: int | None) -> Head:
    """Return a head newer than ``since``, less what the attacker added to bring it about."""
    head, own = prober.provoke(since)
    if own.is_zero:
        return head
    return Head(head.weights - np.linalg.solve(A, own.moment - own.gram @ head.weights), head.precision)


def room_of(prober: Prober, bounds: Bounds) -> int:
    """Return how many rows one message of the first identity may have, by public bounds and what it has standing."""
    fed = prober.federation
    standing = -(-len(fed.scenario.parts[fed.scenario.attacker]) // len(fed.attackers))
    return max(min(bounds.message_rows, bounds.client_rows - standing), 0)
