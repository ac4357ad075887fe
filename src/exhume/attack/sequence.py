"""Many deletions followed one after another from one identification: one broadcast each, no probe."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from exhume.attack.identify import State
from exhume.attack.rank_one import RankOne, rank_one
from exhume.protocol.head import Head

__all__ = ["Followed", "sequence"]


@dataclass(frozen=True)
class Followed:
    """One deletion of a followed sequence."""

    found: RankOne
    state: State
    """The state after it: by subtraction where the record is known, else as identified anew."""
    reidentified: bool


def sequence(
    state: State,
    heads: Iterable[Head],
    *,
    reidentify: Callable[[], State] | None = None,
    nonnegative: bool = False,
) -> list[Followed]:
    """Follow deletions of one record each through the heads broadcast after them.

    The state follows by subtracting ``f f'`` and ``f e_k'``. Where the self-check does not stand by a record,
    ``reidentify`` is called, if given, for the state as it then is; else the state is left as it was, with the new
    head.
    """
    followed = []
    for head in heads:
        found = rank_one(state, head, nonnegative=nonnegative)
        fresh = not found.known and reidentify is not None
        if found.known:
            state = _without(state, found, head)
        elif reidentify is not None:
            state = reidentify()
        else:
            state = replace(state, baseline=head)
        followed.append(Followed(found, state, fresh))
    return followed


def _without(state: State, found: RankOne, head: Head) -> State:
    f = found.feature
    A = state.A - np.outer(f, f)
    G = state.G.copy()
    G[:, found.label] -= f
    # Sherman-Morrison on the independent inverse keeps it a check at quadratic cost.
    Hf = state.H @ f
    H = state.H + np.outer(Hf, Hf) / (1.0 - float(f @ Hf))
    return replace(state, A=A, H=H, G=G, baseline=head)
