"""How outcomes are scored against the truth: recovered blocks, replays, what a cancellation leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exhume.attack.block import Block
from exhume.attack.coordinates import Coordinates, schur
from exhume.attack.recover import Recovered
from exhume.attack.session import Cost
from exhume.attack.state import State
from exhume.numerics import DENOMINATOR_FLOOR, Matrix, relative
from exhume.protocol.ledger import Ledger
from exhume.protocol.summary import Summary

__all__ = ["Replayed", "Residuals", "Scored", "as_known", "score", "state_error"]

MANY = 1024
"""From so many features on a single record's gram is not written out to be scored."""


@dataclass(frozen=True)
class Scored:
    """What one recovery made of one deletion, scored against the truth."""

    method: str
    relerr_gram: float
    relerr_moment: float
    label: int | None
    """The label that the attacker read off; None where more than one record was deleted."""
    label_correct: bool | None
    relerr_feature: float | None
    known: bool | None
    """Whether the attacker's own check stands by it; None for recoveries without one."""
    margin: float | None
    min_eigenvalue: float | None = None
    membership: float | None = None
    """The chance that a deleted record looks more like one than another of its class does (1 is certainty, 0.5
    guessing); None where one record, or at least as many as features, were deleted."""


def score(method: str, found: Recovered, deleted: Summary, label: int | None) -> Scored:
    """Score a recovered block against what was deleted; ``label`` is that of a single deleted record."""
    sample = found.block.as_sample()
    truth: Matrix | None = None if label is None else deleted.moment[:, label]
    return Scored(
        method=method,
        relerr_gram=_gram_error(found.block, deleted, truth),
        relerr_moment=relative(found.block.moment - deleted.moment, deleted.moment),
        label=None if label is None else sample.label,
        label_correct=None if label is None else sample.label == label,
        relerr_feature=None if truth is None else relative(sample.feature - truth, truth),
        known=found.known,
        margin=None if label is None else found.margin if found.margin is not None else sample.margin,
    )


def _gram_error(block: Block, deleted: Summary, truth: Matrix | None) -> float:
    """Return the relative error of a gram: of one record's among many features from the features alone.

    ``f f' - g g' = e f' + g e'`` with ``e = f - g``, whose squared norm is
    ``|e|^2 (|f|^2 + |g|^2) + 2 (e.g) (e.f)``: nothing is written out, and nothing cancels.
    """
    f = block.record
    if truth is None or f is None or deleted.d < MANY:
        return relative(block.gram - deleted.gram, deleted.gram)
    e, g = f - truth, truth
    square = float(e @ e) * float(f @ f + g @ g) + 2.0 * float(e @ g) * float(e @ f)
    return float(np.sqrt(max(square, 0.0)) / max(float(g @ g), DENOMINATOR_FLOOR))


@dataclass(frozen=True)
class Replayed:
    """What re-inserting a recovered block did."""

    method: str
    head_error: float | None
    """Relative distance of the unrounded head from the one before the deletion: of the raw block, or of the projected
    one where the server's rules took only that; infinite if the ledger refused it, None if a rule did."""
    head_error_psd: float | None
    """The same with the block's gram projected to positive semidefinite; None if that was refused, or not asked for."""
    relerr_gram_psd: float | None = None
    ledger_error_gram: float | None = None
    """How far the replayed ledger's gram is from the one before the deletion, relative to the whole ledger."""
    ledger_error_moment: float | None = None
    ledger_error_gram_psd: float | None = None
    head: Matrix | None = None
    """The exact head after the replay that counts."""
    refused: str | None = None
    """Why the server refused it, in every form."""
    cost: Cost | None = None
    """What the attacker had spent by then."""


@dataclass(frozen=True)
class Residuals:
    """What the cancellation left behind, relative: gram, moment and head (hidden values, for the evaluator)."""

    e_S: float
    e_G: float
    e_W: float

    @classmethod
    def between(cls, start: Summary, head: Matrix, after: Ledger) -> Residuals:
        """Compare a ledger with the totals and the head that it had before."""
        end = after.summary
        return cls(
            relative(end.gram - start.gram, start.gram),
            relative(end.moment - start.moment, start.moment),
            relative(after.head() - head, head),
        )


def as_known(A: Matrix, state: State) -> Matrix:
    """Return the true A as it is to those who have identified a state: a Schur complement where that is not all."""
    if state.live is None:
        return A
    return Coordinates(state.d, state.live, np.ones(len(state.live))).spread_square(schur(A, state.live))


def state_error(found: State | None, A: Matrix) -> float | None:
    """Return the relative error of an identified state on the coordinates that it speaks of; None without a state."""
    if found is None or found.live is None:
        return None if found is None else relative(found.A - A, A)
    truth, at = schur(A, found.live), np.ix_(found.live, found.live)
    return relative(found.A[at] - truth, truth)
