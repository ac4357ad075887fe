"""The moment of a state to the ledger's own precision, however coarse the released heads.

A floating-point head is rounded relative to its size. A client that may change moments submits ``-G^`` and sees the
head of what it does not know yet, small and therefore finely resolved: ``G^ <- G^ + A^ head(-G^)`` contracts until
nothing is left. After a deletion the same starts from the old ``G^`` and shows ``-A_post^-1 G_del`` at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exhume.attack._linalg import Matrix
from exhume.attack.block import Block
from exhume.attack.probes.base import moment_update
from exhume.attack.session import Attack
from exhume.errors import AttackError, InputError

__all__ = ["Zoomed", "zoom", "zoomed_difference"]


@dataclass(frozen=True)
class Zoomed:
    """A moment found by centring the head, and whether the centring contracted."""

    G: Matrix
    sizes: tuple[float, ...]
    """Norm of each centred head; an estimate that is good enough makes them fall steadily."""

    @property
    def converged(self) -> bool:
        """Whether the last centred head is at most a millionth of the first, or zero."""
        return self.sizes[-1] <= 1e-6 * self.sizes[0]


def zoom(attack: Attack, A: Matrix, *, start: Matrix | None = None, responses: int = 6) -> Zoomed:
    """Find the present moment G by centring the head ``responses`` times; everything submitted is taken back.

    Parameters
    ----------
    attack
        The malicious client.
    A
        An estimate of the regularised gram. It need not be sharp: the error shrinks by ``|I - A^ A^-1|`` a response.
    start
        A first estimate of G, such as the one before a deletion; zero by default.
    responses
        How many centred heads to ask for.
    """
    if responses < 1:
        raise InputError("responses", "at least 1", responses)
    head = attack.observe()
    G = np.zeros_like(head.weights) if start is None else start.copy()
    standing = np.zeros_like(G)
    sizes: list[float] = []
    try:
        for _ in range(responses):
            head = attack.submit(moment_update(-G - standing))
            standing = -G.copy()
            if not np.isfinite(head.weights).all():
                raise AttackError("centring diverged: a returned head is not finite")
            sizes.append(float(np.linalg.norm(head.weights)))
            G = G + A @ head.weights
    finally:
        if standing.any():
            attack.submit(moment_update(-standing))
    return Zoomed(G, tuple(sizes))


def zoomed_difference(before: Zoomed, after: Zoomed, A_before: Matrix, A_after: Matrix | None = None) -> Block:
    """Return the deleted block: the moment is the difference of two zoomed ones, the gram that of two states.

    Without a state after, the gram is that of the one record that the moment names (maximum-column rule).
    """
    moment = before.G - after.G
    if A_after is not None:
        return Block(A_before - A_after, moment)
    sample = Block(np.zeros_like(A_before), moment).as_sample()
    return Block(np.outer(sample.feature, sample.feature), moment)
