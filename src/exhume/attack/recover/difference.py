"""The paper's recovery: subtract two identified states. The error of a whole state lands on a small block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exhume.attack.block import Block
from exhume.attack.recover.base import KINDS, Recovered, Recovery
from exhume.attack.state import State, alike
from exhume.errors import InputError

__all__ = ["RECOVERIES", "DifferenceDiagnostics", "difference", "read_block"]


@dataclass(frozen=True)
class DifferenceDiagnostics:
    """How clearly the label won."""

    margin: float | None
    """Largest column norm of the moment minus the second, over the largest; None for more than one record."""


def difference(before: State, after: State, *, records: int | None = 1, ridge: bool = False) -> Recovered:
    """Return the deleted block ``A_pre - A_post``, ``A_pre W_pre - A_post W_post`` (Proposition 2).

    Parameters
    ----------
    before, after
        The states around the deletion.
    records
        How many records were deleted, None if that is not known. One is read off the block (Proposition 3).
    ridge
        Whether the server may have chosen another ridge since (`estimate.ridges`): the difference of the ridges, the
        median eigenvalue of that of the states where fewer than d / 2 records were deleted, is then taken out.
    """
    before, after = alike(before, after)
    gram = before.A - after.A
    if ridge:
        live = np.ix_(*2 * (np.arange(before.d) if before.live is None else before.live,))
        gram[live] -= np.median(np.linalg.eigvalsh(gram[live])) * np.eye(len(gram[live]))
    return read_block(Block(gram, before.G - after.G), records)


def read_block(block: Block, records: int | None) -> Recovered:
    """Return a block, and the record that it shows if it is of one (maximum-column rule, Proposition 3)."""
    if records is not None and records < 1:
        raise InputError("records", "at least 1", records)
    if records != 1:
        return Recovered(None, None, block, None, DifferenceDiagnostics(None))
    sample = block.as_sample()
    return Recovered(sample.label, sample.feature, block, None, DifferenceDiagnostics(sample.margin))


RECOVERIES = (
    Recovery("difference", "the state before minus the state after, as in the paper", difference, "state", KINDS),
)
