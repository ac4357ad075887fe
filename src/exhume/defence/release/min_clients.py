"""A head only when several clients have changed something since the last one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from exhume.defence.release._base import Pending, at_least

__all__ = ["MinClients"]


class MinClients(Pending):
    """Releases a head once ``clients`` distinct clients have changed something since the last one.

    Fewer than ``clients`` colluders then never know all that moved between two heads, so they have no equation
    ``A X = Z`` (the paper's quiet interval). One name is one client here: names must be authenticated.

    Parameters
    ----------
    clients
        How many distinct clients one head must cover.
    """

    name = "min-clients"
    about = "a head once enough distinct clients have changed something"
    example: ClassVar[Mapping[str, Any]] = {"clients": 2}

    def __init__(self, clients: int) -> None:
        super().__init__()
        self.clients = at_least("clients", clients, 1)

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"clients": self.clients}

    def opens(self, changes: int, clients: tuple[str, ...]) -> bool:
        """Say whether enough clients took part."""
        return len(clients) >= self.clients


RULES = (MinClients,)
