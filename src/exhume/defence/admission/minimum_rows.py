"""Minimum rows: a deletion of one record stands out in the next head, one of many hides each of them a little."""

from __future__ import annotations

from typing import ClassVar

from exhume.defence.admission._numbers import least_rows
from exhume.errors import InputError
from exhume.protocol import AdmissionRule, Update

__all__ = ["MinimumRows"]


class MinimumRows(AdmissionRule):
    """Refuses deletions of fewer rows than ``rows``.

    An update does not say how many rows it holds. The rule counts what the algebra proves: the rank of the gram, equal
    to the number of independent rows and never above the true number. It protects honest clients from being seen
    alone; it is no check on malicious ones, which can pad with rows of any size.

    Parameters
    ----------
    rows
        Fewest rows of a deletion, at most d.
    """

    name = "minimum-rows"
    about = "no deletion of fewer rows than a limit"
    reads: ClassVar[str] = "message"

    def __init__(self, rows: int = 8) -> None:
        if rows < 1:
            raise InputError("rows", "at least 1", rows)
        self.rows = rows

    def refuse(self, update: Update, client: str) -> str | None:
        """Count the deletion's rows."""
        if update.delete.is_zero:
            return None
        found = least_rows(update.delete)
        if found < min(self.rows, update.d):
            return f"{self.name}: a deletion of {found} rows; wait until there are {self.rows}"
        return None

    def __repr__(self) -> str:
        return f"MinimumRows({self.rows})"


RULES = (MinimumRows,)
