"""A whole deletion on a live server: a second client of the operator's owns the record, and everything is undone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exhume.attack import recover
from exhume.attack.block import Block
from exhume.attack.session import Attack
from exhume.attack.state import State
from exhume.audit.records_live import LiveDeletion
from exhume.audit.row_journal import PlannedRows, RowJournal
from exhume.audit.signals import shielded
from exhume.audit.undoing import UndoingTarget
from exhume.errors import AttackError, ExhumeError, RefusedError
from exhume.numerics import Matrix, relative
from exhume.protocol.head import Head
from exhume.protocol.target import Target

__all__ = ["Owner", "play_deletion"]


@dataclass(eq=False)
class Owner:
    """The operator's second client, and the test record that it adds and deletes.

    The record is in a file before it is sent, and is taken back by its receipts.
    """

    journal: RowJournal
    feature: Matrix
    label: int
    _sent: PlannedRows | None = None

    def add(self) -> None:
        """Add the record."""
        self._sent = self.journal.plan("owner", [(self.feature[None], np.array([self.label]))])[0]
        try:
            self.journal.add(self._sent)
        except RefusedError as error:
            self.journal.restore()
            raise AttackError(f"not started: the owner's record was refused ({error.rule})") from error

    def delete(self) -> None:
        """Delete the record, if it stands or may stand."""
        try:
            self.journal.restore()
        except Exception as error:
            file = self.journal.file
            where = f"it is in '{file}': exhume audit --undo '{file}' with the same target and tokens deletes it"
            said = f"{type(error).__name__}: {error}"
            raise AttackError(f"THE OWNER'S RECORD COULD NOT BE TAKEN BACK ({said}): {where}") from error


def play_deletion(target: Target, owner: Owner, before: State, start: Head, actions: list[str]) -> LiveDeletion:
    """Let the owner delete its record, recover it, put it back, and take that back.

    Parameters
    ----------
    target
        The server as the attacker sees it, with no probe standing.
    owner
        Who deletes.
    before
        The state that the attacker identified while the record stood.
    start
        The head before the owner added the record: it must come back.
    actions
        What was done, in words; gets its lines.
    """
    standing = target.head()
    with shielded():
        owner.delete()
    actions.append("the owner deleted its test record")
    careful = UndoingTarget(target)
    try:
        found = recover.rank_one(before, Attack(careful).observe())
    except ExhumeError as error:
        actions.append(f"the record could not be recovered: {error}")
        return LiveDeletion(label_right=False, feature_error=None, replayed=None, residual=_off(careful, start))
    assert found.feature is not None
    off = relative(found.feature - owner.feature, owner.feature)
    actions.append(f"recovered the record from one head: features off by {off:.2g}")
    replayed = _replayed(careful, found.block, standing, actions)
    return LiveDeletion(
        label_right=found.label == owner.label, feature_error=off, replayed=replayed, residual=_off(careful, start)
    )


def _replayed(careful: UndoingTarget, block: Block, standing: Head, actions: list[str]) -> float | None:
    """Put the block back; returns the share of the deletion's change of the head that this undid."""
    moved = float(np.linalg.norm(standing.weights - careful.baseline.weights))
    try:
        head = Attack(careful).replay(block)
    except ExhumeError as error:
        actions.append(f"the replay was refused: {error}")
        return None
    with shielded():
        careful.restore()
    actions.append("put the record back, then took it out again")
    return 1.0 - float(np.linalg.norm(head.weights - standing.weights)) / max(moved, 1e-300)


def _off(careful: UndoingTarget, start: Head) -> float:
    return relative(careful.head().weights - start.weights, start.weights)
