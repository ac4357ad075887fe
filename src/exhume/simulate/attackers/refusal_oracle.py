"""An attacker that asks refusals: it adds each guess, first with a deletion of what it does not own."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from exhume.protocol.message import Batch
from exhume.simulate.attackers._base import Attacker, Follow, Guess, named
from exhume.simulate.prober import Draft, Prober

__all__ = ["ATTACKERS"]

SCALES = (1.0, 1.02, 1.03, 1.035, 1.04, 1.045, 1.05)
"""Sizes of the guesses: at the edge of a rule's tolerance the right label alone is still within it."""


def _odd_one_out(prober: Prober, foreign: Batch | None, scale: float) -> int | None:
    """Return the one label of a known feature that is answered otherwise than the rest; None where there is none."""
    feature, answers = scale * prober.feature(), []
    for label in range(prober.federation.scenario.classes):
        draft = Draft(Batch(feature[None, :], np.array([label])), foreign)
        receipt = prober.send(draft)
        if receipt.accepted:
            prober.send(draft.undo())
        answers.append((receipt.accepted, receipt.rule))
    common = Counter(answers).most_common(1)[0][0]
    odd = [label for label, answer in enumerate(answers) if answer != common]
    return odd[0] if len(odd) == 1 else None


def _oracle(prober: Prober) -> Follow:
    def follow(later: Prober) -> Guess:
        foreign = Batch(2.0 * later.feature()[None, :], np.array([0]))
        for deleted, scale in itertools.product((foreign, None), SCALES):
            if (label := _odd_one_out(later, deleted, scale)) is not None:
                return named(later, label)
        return named(later, int(later.rng.integers(later.federation.scenario.classes)))

    return follow


ATTACKERS = (Attacker("refusal-oracle", "asks refusals for the label of a known feature", _oracle, aim="label"),)
