"""Probes shaped by a guess of the state, then by the answer; moments compared by centring the head (zoom)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from exhume.attack import estimate, probes
from exhume.attack.block import Block
from exhume.attack.strategies.zoom import centre
from exhume.errors import NotIdentifiedError, RefusedError
from exhume.numerics import Matrix
from exhume.protocol.head import Head
from exhume.simulate.attackers._base import Attacker, Follow, Guess, guess_of_A
from exhume.simulate.prober import Draft, Prober

__all__ = ["ATTACKERS"]


def _conditioned(prober: Prober) -> Follow:
    classes, guess = prober.federation.scenario.classes, guess_of_A(prober)
    for _ in range(2):

        def totals(scale: float, at: Matrix = guess) -> Sequence[Matrix]:
            return probes.conditioned(at, classes, scale=scale).totals

        harvest = prober.moments(totals, "conditioned")
        try:
            guess = estimate.symmetric(harvest.transcript, guess=guess).A
        except (NotIdentifiedError, np.linalg.LinAlgError):
            break
    before = _moment(prober, guess, guess @ prober.head().weights)

    def follow(later: Prober) -> Guess:
        moment = before - _moment(later, guess, before)
        sample = Block(np.zeros((len(moment), len(moment))), moment).as_sample()
        block = Block(np.outer(sample.feature, sample.feature), moment)
        return Guess(block, sample.label, sample.feature)

    return follow


def _moment(prober: Prober, A: Matrix, start: Matrix) -> Matrix:
    """Return the present moment, by centring the head as far as the server allows; else by the head alone."""

    def move(change: Matrix) -> Head | None:
        before = prober.head().serial
        receipt = prober.send(Draft.moment(change), prober.federation.attackers[0])
        if receipt.reason is not None:
            raise RefusedError(receipt.reason, receipt.rule)
        head = prober.head()
        return None if head.serial == before else head

    found = centre(move, A, start, responses=4, limit=10 * float(np.linalg.norm(start)))
    return found.G if found.taken else A @ prober.head().weights


ATTACKERS = (Attacker("conditioned", "moments shaped by a guess of the state, zoomed", _conditioned),)
