"""What an estimator is: a function from a transcript to a state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from exhume.attack._call import call
from exhume.attack.state import Diagnostics, State
from exhume.attack.transcript import Transcript
from exhume.errors import NotIdentifiedError

__all__ = ["Estimator", "solving"]


@dataclass(frozen=True)
class Estimator:
    """One entry of the registry.

    Attributes
    ----------
    name, about
        Name and one line for people.
    estimate
        ``estimate(transcript, *, ...) -> State``. It asks by name for what it uses of what an attacker knows: the rank
        ``tolerance``, and ``guess``, a rough positive definite guess of A.
    """

    name: str
    about: str
    estimate: Callable[..., State]

    def __call__(self, transcript: Transcript, **knowledge: object) -> State:
        """Estimate, with those of the facts that this estimator asks for."""
        return call(self.estimate, self.name, transcript, knowledge=knowledge)


@contextmanager
def solving(found: Diagnostics | None = None) -> Iterator[None]:
    """Turn a failed factorisation into a `NotIdentifiedError` with the numbers so far."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise NotIdentifiedError(f"unstable: {error}", found) from error
