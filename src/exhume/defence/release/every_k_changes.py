"""One head per k accepted changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from exhume.defence.release._base import Pending, at_least

__all__ = ["EveryKChanges"]


class EveryKChanges(Pending):
    """Releases a head after every ``changes`` accepted logical submissions.

    Parameters
    ----------
    changes
        How many changes one head covers; a head is at most ``changes - 1`` changes old.
    """

    name = "every-k-changes"
    about = "one head per k accepted changes"
    example: ClassVar[Mapping[str, Any]] = {"changes": 2}
    former = ("every",)
    counts_changes = True

    def __init__(self, changes: int) -> None:
        super().__init__()
        self.changes = at_least("changes", changes, 1)

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"changes": self.changes}

    def opens(self, changes: int, clients: tuple[str, ...]) -> bool:
        """Say whether enough has changed."""
        return changes >= self.changes


RULES = (EveryKChanges,)
