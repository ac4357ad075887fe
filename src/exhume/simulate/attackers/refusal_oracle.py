"""Attackers that ask refusals: they add each guess, alone or with a deletion of what they do not own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from exhume.errors import AttackError
from exhume.protocol.message import Batch
from exhume.simulate.attackers._base import Attacker, Follow, Guess, named
from exhume.simulate.prober import Draft, Prober

__all__ = ["ATTACKERS"]

FAR, STEPS = 0.3, 8
"""How far from 1 a guess is scaled to be near nothing, and bisections of each edge of what is answered otherwise."""

Answer = tuple[bool, str | None]


def _asked(prober: Prober, foreign: Batch | None, label: int, scale: float) -> Answer:
    draft = Draft(Batch(scale * prober.feature()[None, :], np.array([label])), foreign)
    receipt = prober.send(draft)
    if receipt.accepted:
        prober.send(draft.undo())
    return receipt.accepted, receipt.rule


def _width(near: Callable[[float], bool]) -> float:
    """Return between which scales a guess is answered otherwise than one that is near nothing, by bisection."""
    edges = []
    for far in (-FAR, FAR):
        inside, outside = 0.0, far
        for _ in range(STEPS):
            middle = 0.5 * (inside + outside)
            inside, outside = (middle, outside) if near(1.0 + middle) else (inside, middle)
        edges.append(abs(inside))
    return sum(edges)


def _widest(prober: Prober, foreign: Batch | None) -> int | None:
    """Return the label of a known feature that stays near the longest when it is scaled; None where none is near.

    Wrong labels are farther off at every scale. Both edges count: what a sketch adds on one side it takes off on the
    other.
    """
    far = _asked(prober, foreign, 0, 1.0 - FAR)

    def near(label: int, scale: float) -> bool:
        return _asked(prober, foreign, label, scale) != far

    able = [label for label in range(prober.federation.scenario.classes) if near(label, 1.0)]
    if len(able) <= 1:
        return able[0] if able else None
    return max(able, key=lambda label: _width(partial(near, label)))


def _odd_one(prober: Prober) -> int | None:
    """Return the label of a known feature that is answered otherwise than all others; None where none is.

    Each is asked once: a rule may know a guess again, at any scale, from the attacker's own asking.
    """
    answers = [_asked(prober, None, label, 1.0) for label in range(prober.federation.scenario.classes)]
    odd = [label for label, answer in enumerate(answers) if answers.count(answer) == 1]
    return odd[0] if len(odd) == 1 else None


def _said(prober: Prober, label: int | None) -> Guess:
    """Name a label, any where the answers tell none."""
    return named(prober, int(prober.rng.integers(prober.federation.scenario.classes)) if label is None else label)


def _deletions(prober: Prober) -> Follow:
    def follow(later: Prober) -> Guess:
        foreign = Batch(2.0 * later.feature()[None, :], np.array([0]))
        label = _widest(later, foreign)
        return _said(later, _widest(later, None) if label is None else label)

    return follow


def _additions(prober: Prober) -> Follow:
    def follow(later: Prober) -> Guess:
        if not later.happens():
            raise AttackError("the record did not come in")
        return _said(later, _odd_one(later))

    return follow


ATTACKERS = (
    Attacker("refusal-oracle", "asks refusals for the label of a known feature", _deletions, aim="label"),
    Attacker(
        "refusal-oracle-additions",
        "the same for a record that comes in",
        _additions,
        aim="label",
        event="addition",
    ),
)
