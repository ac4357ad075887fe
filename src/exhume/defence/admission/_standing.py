"""What clients have standing, as digests: found, noted and retired in time that does not grow with the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from exhume.defence.memory import client_names
from exhume.protocol.rules import Undo

__all__ = ["StandingBlocks"]


class StandingBlocks:
    """Digests by client, each with how often it stands. A step can be taken back (`mark`)."""

    def __init__(self) -> None:
        self._held: dict[str, dict[bytes, int]] = {}
        self._before: list[tuple[str, bytes, int]] = []

    def missing(self, client: str, wanted: Counter[bytes]) -> int:
        """Return how many of the digests a client does not have standing."""
        held = self._held.get(client, {})
        return sum(max(n - held.get(key, 0), 0) for key, n in wanted.items())

    def holds(self, client: str, wanted: Counter[bytes]) -> bool:
        """Say whether a client has all these standing."""
        return self.missing(client, wanted) == 0

    def note(self, client: str, digests: Counter[bytes]) -> None:
        """Take up what a client added."""
        self._move(client, digests, 1)

    def retire(self, client: str, digests: Counter[bytes]) -> None:
        """Take out what a client deleted."""
        self._move(client, digests, -1)

    def mark(self) -> Undo:
        """Return what takes back everything since."""
        self._before = []

        def undo() -> None:
            for client, key, stood in reversed(self._before):
                self._put(client, key, stood)
            self._before = []

        return undo

    def _move(self, client: str, digests: Counter[bytes], sign: int) -> None:
        held = self._held.setdefault(client, {})
        for key, n in digests.items():
            stood = held.get(key, 0)
            self._before.append((client, key, stood))  # first, and as it was: wherever this stops, it can be undone
            self._put(client, key, stood + sign * n)

    def _put(self, client: str, key: bytes, count: int) -> None:
        if count > 0:
            self._held[client][key] = count
        else:
            self._held[client].pop(key, None)

    def remembered(self) -> dict[str, dict[str, int]]:
        """Return it as plain values."""
        client_names(self._held)
        return {client: {key.hex(): n for key, n in held.items()} for client, held in self._held.items() if held}

    @classmethod
    def restored(cls, values: Mapping[str, Mapping[str, int]]) -> StandingBlocks:
        """Return what `remembered` was taken from."""
        made = cls()
        made._held = {c: {bytes.fromhex(key): int(n) for key, n in held.items()} for c, held in values.items()}
        return made
