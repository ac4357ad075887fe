"""A factorisation of the prefix-sum matrix: how noise that is drawn once per event is spread over all later totals.

Running totals are ``A x`` with A the lower triangle of ones and x the events. With ``A = B C`` the totals come out as
``A x + B z = B (C x + z)``, z drawn once per event: whatever is made of all of them, for ever, tells no more of x than
``C x + z`` does, one look through Gaussian noise. Both factors are Toeplitz matrices here. The best of that kind is the
square root of A (Fichtenberger, Henzinger and Upadhyay 2023), ``c_j = binom(2j, j) / 4^j``, about ``sqrt(log(n) / pi)``
on each side. It needs all past draws. Since ``c_j = 1/pi int_0^1 t^j / sqrt(t (1 - t)) dt`` is a mixture of powers, a
few powers come close: B is a mixture of `BUFFERS` of them (a buffered linear Toeplitz matrix, Dvijotham et al. 2024),
for which a few running sums of draws suffice. C is B^-1 A exactly, so that the account is exact for the noise that is
really drawn; the fit decides by how much the product of norms is above the square root's: 2% up to 10,000 events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from exhume.errors import InputError
from exhume.numerics import Matrix

__all__ = ["BUFFERS", "Factorisation", "square_root"]

BUFFERS = 4
"""Powers in the mixture: so many running sums of draws are kept."""

_FAST, _SLOW = -1.2, 0.5
"""Ends of the powers on the scale of ``log(t / (1 - t))``: the slow one is this much beyond ``log(horizon)``."""


@dataclass(frozen=True, eq=False)
class Factorisation:
    """``A = B C`` for so many events, B being a mixture of powers.

    Parameters
    ----------
    horizon
        Events that it is made for.
    weights, decays
        ``b_j = sum_i weights_i decays_i^j``, with weights that add up to 1.
    """

    horizon: int
    weights: Matrix
    decays: Matrix

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, horizon: int) -> Factorisation:
        """Return the one for a horizon: the powers even on the log-odds scale, weighted as the integral has it."""
        if horizon < 2:
            raise InputError("horizon", "at least 2", horizon)
        odds = np.linspace(_FAST, math.log(horizon) + _SLOW, BUFFERS)
        decays = 1.0 / (1.0 + np.exp(-odds))
        weights = np.sqrt(decays * (1.0 - decays))
        return cls(horizon, weights / weights.sum(), decays)

    def decoder(self, events: int) -> Matrix:
        """Return the first column of B: what share of a draw is in the total so many events later."""
        powers: Matrix = self.decays[:, None] ** np.arange(events)
        return self.weights @ powers

    def encoder(self, events: int) -> Matrix:
        """Return the first column of C, by ``B C = A``: the recursion of the buffers, run backwards."""
        found, sums = np.empty(events), np.zeros(len(self.decays))
        lead = self.weights * self.decays
        for j in range(events):
            found[j] = 1.0 - lead @ sums
            sums = self.decays * sums + found[j]
        return found

    @cached_property
    def sensitivity(self) -> float:
        """The largest column norm of C: what one event can move, in units of one draw."""
        return float(np.linalg.norm(self.encoder(self.horizon)))

    def growth(self, events: int) -> float:
        """Return the size of the noise on the total after so many events, in units of one draw."""
        return float(np.linalg.norm(self.decoder(events)))

    @cached_property
    def largest(self) -> float:
        """The size of the noise at the horizon, in units of one draw."""
        return self.growth(self.horizon)

    @cached_property
    def step(self) -> float:
        """The size of the change of that noise from one total to the next, in units of one draw, in the long run."""
        return float(np.linalg.norm(np.diff(self.decoder(self.horizon), prepend=0.0)))

    def __deepcopy__(self, memo: object) -> Factorisation:
        return self  # never changed: a copy could not differ


def square_root(events: int) -> Matrix:
    """Return the first column of the square root of the prefix-sum matrix: ``binom(2j, j) / 4^j``."""
    steps = np.arange(1, events)
    return np.cumprod(np.concatenate([[1.0], 1.0 - 0.5 / steps]))
