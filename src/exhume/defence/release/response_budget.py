"""A limit on how many heads one client's changes may bring about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from exhume.defence.memory import Memory
from exhume.defence.release._base import Pending, at_least
from exhume.protocol.head import Head
from exhume.protocol.rules import Occasion

__all__ = ["ResponseBudget"]


class ResponseBudget(Pending):
    """Withholds a head if every client behind the changes since the last one has used up its responses.

    Nothing is lost: the change is in the ledger, and goes out with the next head that another client's change brings.

    Parameters
    ----------
    responses
        How many heads each client may bring about.
    """

    name = "response-budget"
    about = "a limit on the heads that one client's changes bring about"
    example: ClassVar[Mapping[str, Any]] = {"responses": 2}

    def __init__(self, responses: int) -> None:
        super().__init__()
        self.responses = at_least("responses", responses, 1)
        self._used: Counter[str] = Counter()

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"responses": self.responses}

    def left(self, client: str) -> int:
        """Return how many responses a client has left."""
        return max(self.responses - self._used[client], 0)

    def opens(self, changes: int, clients: tuple[str, ...]) -> bool:
        """Say whether anybody involved has responses left."""
        return not clients or any(self.left(client) for client in clients)

    def record(self, released: Head | None, occasion: Occasion) -> None:
        """Charge a head to everybody whose changes it answers."""
        if released is not None:
            self._used.update(self._now(occasion)[1])
        super().record(released, occasion)

    def remembered(self) -> Memory:
        """Return what is pending and what each client has used."""
        return Memory({**super().remembered().values, "used": dict(self._used)})

    def restore(self, memory: Memory) -> None:
        """Take over what is pending and what each client has used."""
        super().restore(memory)
        self._used = Counter({client: int(used) for client, used in memory.values["used"].items()})


RULES = (ResponseBudget,)
