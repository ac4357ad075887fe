"""Many deletions followed one after another from one identification: one broadcast each, no probe."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from exhume.attack._line import line
from exhume.attack.block import Block
from exhume.attack.recover.base import Recovered, Recovery
from exhume.attack.recover.rank_one import rank_one
from exhume.attack.state import State, alike
from exhume.errors import InputError
from exhume.protocol.head import Head

__all__ = ["RECOVERIES", "Followed", "SequenceDiagnostics", "sequence"]


@dataclass(frozen=True, repr=False)
class Followed:
    """One deletion of a followed sequence."""

    found: Recovered
    state: State
    """The state after it: by subtraction where the record is known, else as identified anew."""
    reidentified: bool

    def __repr__(self) -> str:
        return line(self, label=self.found.label, known=self.found.known, reidentified=self.reidentified)


@dataclass(frozen=True, repr=False)
class SequenceDiagnostics:
    """Every deletion on the way."""

    steps: tuple[Followed, ...]

    def __repr__(self) -> str:
        known = sum(bool(step.found.known) for step in self.steps)
        return line(self, steps=len(self.steps), known=known, reidentified=sum(s.reidentified for s in self.steps))


def sequence(
    before: State,
    after: Head | Iterable[Head],
    *,
    reidentify: Callable[[], State] | None = None,
    nonnegative: bool = False,
) -> Recovered:
    """Follow deletions of one record each through the heads broadcast after them.

    The state follows by subtracting ``f f'`` and ``f e_k'``. Where the self-check does not stand by a record,
    ``reidentify`` is called, if given, for the state as it then is; else the state is left as it was, with the new
    head. The block is that of all records together; each is in the diagnostics' ``steps``.
    """
    state, steps = before, []
    for head in (after,) if isinstance(after, Head) else after:
        state, head = alike(state, head)
        found = rank_one(state, head, nonnegative=nonnegative)
        fresh = not found.known and reidentify is not None
        if found.known:
            state = _without(state, found, head)
        elif reidentify is not None:
            state = reidentify()
        else:
            state = replace(state, baseline=head)
        steps.append(Followed(found, state, fresh))
    if not steps:
        raise InputError("after", "at least one head", "none")
    blocks = [step.found.block for step in steps]
    total = Block(np.sum([b.gram for b in blocks], axis=0), np.sum([b.moment for b in blocks], axis=0))
    one = steps[0].found if len(steps) == 1 else None
    return Recovered(
        None if one is None else one.label,
        None if one is None else one.feature,
        total,
        all(step.found.known for step in steps),
        SequenceDiagnostics(tuple(steps)),
    )


def _without(state: State, found: Recovered, head: Head) -> State:
    f, gone = found.feature, found.block
    assert f is not None
    # Sherman-Morrison on the independent inverse keeps it a check at quadratic cost.
    Hf = state.H @ f
    H = state.H + np.outer(Hf, Hf) / (1.0 - float(f @ Hf))
    return replace(state, A=state.A - gone.gram, H=H, G=state.G - gone.moment, baseline=head)


RECOVERIES = (Recovery("sequence", "deletions followed one after another from one identified state", sequence, "head"),)
