"""Gaussian noise on the head: the same everywhere, or shaped like the ridge posterior."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from exhume.defence.memory import Memory
from exhume.defence.release._base import Rule, positive
from exhume.defence.release._sticky import Sticky, as_key
from exhume.numerics import Matrix
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Occasion

__all__ = ["IsotropicNoise", "PosteriorNoise"]


class _Noise(Rule):
    stage = "noise"
    purpose: ClassVar[str]
    """What the draws are seeded with beside key and state: another one would be other noise."""

    def __init__(self, sigma: float, key: str | bytes | None = None) -> None:
        self.sigma = positive("sigma", sigma)
        self._key = as_key(key)
        self._sticky = Sticky(self._key, self.purpose)

    @abstractmethod
    def shaped(self, ledger: Ledger, white: Matrix) -> Matrix:
        """Give a standard normal draw its covariance (without sigma)."""

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments but the key, which is kept with the state."""
        return {"sigma": self.sigma}

    def release(self, head: Head, occasion: Occasion) -> Head:
        """Return the head with the noise of its state."""
        white = self._sticky.draw(occasion.ledger, head.weights.shape)
        return replace(head, weights=head.weights + self.sigma * self.shaped(occasion.ledger, white))

    def remembered(self) -> Memory:
        """Return the key. Whoever has it can take the noise off again: keep a saved state as the ledger itself."""
        return Memory({"key": self._key.hex()})

    def restore(self, memory: Memory) -> None:
        """Take over the key, so that states seen before keep their draws."""
        self._key = as_key(str(memory.values["key"]))
        self._sticky = Sticky(self._key, self.purpose)


class IsotropicNoise(_Noise):
    """Adds ``sigma`` times a standard normal to every entry.

    Parameters
    ----------
    sigma
        Standard deviation of each entry.
    key
        The secret behind the draws (hexadecimal or bytes); made if not given.
    """

    name = "isotropic-noise"
    about = "the same Gaussian noise on every entry of the head"
    example: ClassVar[Mapping[str, Any]] = {"sigma": 0.01}
    purpose = "isotropic_noise"

    def shaped(self, ledger: Ledger, white: Matrix) -> Matrix:
        """Return the draw itself."""
        return white


class PosteriorNoise(_Noise):
    """Adds noise of covariance ``sigma^2 A^-1`` to every column: ``W + sigma L^-T Z`` with the ledger's own factor.

    The released head is a sample of the ridge posterior at noise level ``sigma``. What one deletion shifts, measured in
    this noise, is ``sqrt(f' A^-1 f) |e_k - W' f| / sigma`` (`exhume.defence.privacy`).

    Parameters
    ----------
    sigma
        Scale of the noise, in units of the one-hot labels.
    key
        The secret behind the draws (hexadecimal or bytes); made if not given.
    """

    name = "posterior-noise"
    about = "Gaussian noise in the shape of the ridge posterior"
    example: ClassVar[Mapping[str, Any]] = {"sigma": 0.2}
    purpose = "posterior_noise"

    def shaped(self, ledger: Ledger, white: Matrix) -> Matrix:
        """Return ``L^-T Z``."""
        return ledger.colour(white)


RULES = (IsotropicNoise, PosteriorNoise)
