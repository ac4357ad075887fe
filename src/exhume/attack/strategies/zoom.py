"""The moment of a state to the ledger's own precision, however coarse the released heads.

A floating-point head is rounded relative to its size. A client that may change moments submits ``-G^`` and sees the
head of what it does not know yet, small and therefore finely resolved: ``G^ <- G^ + A^ head(-G^)`` contracts until
nothing is left. After a deletion the same starts from the old ``G^`` and shows ``-A_post^-1 G_del`` at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from exhume.attack._line import line
from exhume.attack.probes.base import moment_update
from exhume.attack.session import Attack
from exhume.attack.state import State
from exhume.errors import AttackError, InputError, RefusedError
from exhume.numerics import Matrix
from exhume.protocol.head import Head

__all__ = ["Centred", "Zoomed", "centre", "zoom"]


@dataclass(frozen=True, repr=False)
class Centred:
    """A moment found by centring the head, and how that went."""

    G: Matrix
    sizes: tuple[float, ...]
    """Norm of each centred head; an estimate that is good enough makes them fall steadily."""
    taken: int
    """How many changes the server took."""
    stopped: RefusedError | AttackError | None = None
    """Why the centring ended early, if it did."""

    @property
    def converged(self) -> bool:
        """Whether the last centred head is at most a millionth of the first, or zero."""
        return bool(self.sizes) and self.sizes[-1] <= 1e-6 * self.sizes[0]

    def __repr__(self) -> str:
        last = self.sizes[-1] if self.sizes else None
        return line(self, responses=len(self.sizes), last=last, converged=self.converged)


@dataclass(frozen=True, repr=False)
class Zoomed:
    """A state whose moment was found by centring the head, for `recover.zoomed`."""

    state: State
    centred: Centred

    @property
    def G(self) -> Matrix:
        """The moment."""
        return self.state.G

    @property
    def converged(self) -> bool:
        """Whether the centring contracted."""
        return self.centred.converged

    def __repr__(self) -> str:
        return line(self, d=self.state.d, c=self.state.c, centred=self.centred)


def zoom(attack: Attack, state: State, *, start: Matrix | None = None, responses: int = 6) -> Zoomed:
    """Find the present moment G by centring the head ``responses`` times; everything submitted is taken back.

    Parameters
    ----------
    attack
        The malicious client.
    state
        An estimate of the state, of which A is used. It need not be sharp: the error shrinks by ``|I - A^ A^-1|`` a
        response.
    start
        A first estimate of G, such as the one before a deletion; zero by default.
    responses
        How many centred heads to ask for.

    Raises
    ------
    AttackError, RefusedError
        If a centred head is not finite or was withheld, or the server refused a change.
    """
    baseline = attack.observe()
    last = baseline

    def move(change: Matrix) -> Head | None:
        nonlocal last
        before, last = last, attack.submit(moment_update(change))
        return None if last.serial is not None and last.serial == before.serial else last

    found = centre(move, state.A, np.zeros_like(baseline.weights) if start is None else start, responses=responses)
    if found.stopped is not None:
        raise found.stopped
    return Zoomed(replace(state, G=found.G, baseline=baseline), found)


def centre(
    move: Callable[[Matrix], Head | None], A: Matrix, start: Matrix, *, responses: int, limit: float = math.inf
) -> Centred:
    """Find a moment by centring the head, as far as the server allows; what stands at the end is taken back.

    Parameters
    ----------
    move
        Changes the server's moment and returns the head that this brings about, or None where none came out. A refusal
        is a `RefusedError`.
    A
        As in `zoom`, the state's.
    start
        The first estimate of G.
    responses
        How many centred heads to ask for.
    limit
        A step of a norm above this ends the centring: it diverges.
    """
    if responses < 1:
        raise InputError("responses", "at least 1", responses)
    G, standing = start.copy(), np.zeros_like(start)
    sizes: list[float] = []
    taken = 0
    stopped: RefusedError | AttackError | None = None
    try:
        for _ in range(responses):
            head = move(-G - standing)
            standing, taken = -G.copy(), taken + 1
            if head is None:
                stopped = AttackError("the server withheld its head: the moment cannot be centred")
                break
            sizes.append(float(np.linalg.norm(head.weights)))
            step = A @ head.weights
            if not np.isfinite(step).all() or np.linalg.norm(step) > limit:
                stopped = AttackError("centring diverged: a returned head is not finite or beyond the limit")
                break
            G = G + step
    except RefusedError as error:
        stopped = error
    finally:
        if standing.any():
            try:
                move(-standing)
            except RefusedError as error:
                stopped = stopped or error
    return Centred(G, tuple(sizes), taken, stopped)
