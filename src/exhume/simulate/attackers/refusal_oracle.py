"""An attacker that asks refusals: it adds each guess, first with a deletion of what it does not own."""

from __future__ import annotations

from collections import Counter

import numpy as np

from exhume.protocol.message import Batch
from exhume.simulate.attackers._base import Attacker, Follow, Guess, named
from exhume.simulate.prober import Draft, Prober

__all__ = ["ATTACKERS"]


def _odd_one_out(prober: Prober, foreign: Batch | None) -> int | None:
    """Return the one label of a known feature that is answered otherwise than the rest; None where there is none."""
    feature, answers = prober.feature(), []
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
        found = [label for deleted in (foreign, None) if (label := _odd_one_out(later, deleted)) is not None]
        return named(later, found[0] if found else int(later.rng.integers(later.federation.scenario.classes)))

    return follow


ATTACKERS = (Attacker("refusal-oracle", "asks refusals for the label of a known feature", _oracle, aim="label"),)
