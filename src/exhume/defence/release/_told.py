"""What somebody has who is told every noisy total of an epoch and all that happened in it: for evaluators."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from exhume.defence.release._epoch import Draws, EpochMeasure
from exhume.defence.release._packed import whole
from exhume.numerics import Matrix

__all__ = ["Told", "noise_of_history"]


@dataclass(frozen=True, eq=False)
class Told:
    """The measure of an epoch and the noise on its totals, as they are at some time."""

    epoch: int
    measure: EpochMeasure
    draws: Draws
    s: float
    """The noise of one draw on the moment."""
    tau: float
    """The noise of one draw on the gram."""

    def draw_to(self, later: Told) -> Matrix | None:
        """Return the draw of the one event in between; None where there was none, or another epoch began."""
        if later.epoch != self.epoch or later.draws.events != self.draws.events + 1:
            return None
        return later.draws.noise() - self.draws.noise(np.zeros(self.draws.sums.shape[1]))


def noise_of_history(history: Sequence[Told]) -> tuple[Matrix, Matrix, float] | None:
    """Return what the best combination of all totals leaves on the event after the first state: gram, moment, size.

    An event x moves what is seen of the j-th draw after it by ``c_j x``, c being the encoder's column: least squares
    gives ``x + sum c_j z_j / sum c_j^2``. The size is that of this noise in draws. None where no event followed.
    """
    draws = (before.draw_to(after) for before, after in itertools.pairwise(history))
    seen = [draw for draw in draws if draw is not None]
    if not seen:
        return None
    first = history[0]
    encoder = first.draws.factorisation.encoder(len(seen))
    size = 1.0 / math.sqrt(float(encoder @ encoder))
    gram, moment = first.draws.parts(size**2 * (encoder @ np.array(seen)), first.s, first.tau)
    return whole(gram, first.draws.d), moment, size
