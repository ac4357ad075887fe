"""The running record of a client's messages, and the features that the sequence detector reads off it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exhume.defence.admission._numbers import Sketch, stacked
from exhume.defence.memory import Memory, client_names
from exhume.numerics import Matrix
from exhume.protocol import Update

__all__ = ["FEATURES", "Log", "Trail", "Watch"]

FEATURES = ("repetition", "cancellation", "moment_only", "answers_deletions", "rate", "size")
"""What is measured of a sequence, each larger for an attack than for honest traffic."""

NEAR = 1e-3
"""Distance of normalised sketches below which two blocks of one client are the same, up to sign and scale."""

AFTER = 2
"""A deletion is answered by a client whose message is among this many of the server's next ones."""

KEPT = 512
"""Blocks of one client that are remembered to find repetitions."""

_PLAIN = ("path", "messages", "repeated", "moment_only", "answered", "size", "first", "last")

Log = Sequence[tuple[str, Update]]
"""A server's accepted messages in order, with the client of each."""


@dataclass(frozen=True)
class Trail:
    """The running record of one client: sums, counts and sketches, no content."""

    total: Matrix
    biggest: Matrix
    """Sketch of the largest net change, usually the first upload, which every client makes."""
    path: float = 0.0
    messages: int = 0
    repeated: int = 0
    moment_only: int = 0
    answered: int = 0
    size: float = -12.0
    first: int = 0
    last: int = 0
    seen: tuple[Matrix, ...] = ()

    def features(self) -> Matrix:
        """Return the features of the sequence so far, in the order of `FEATURES`."""
        if not self.messages:
            return np.zeros(len(FEATURES))
        length = math.log1p(self.messages)
        rest = self.path - float(np.linalg.norm(self.biggest))
        gone = float(np.linalg.norm(self.total - self.biggest))
        # What moved and came back, the first upload left out: 0 for steady growth, 1 for a cancelled probe.
        wasted = max(1.0 - gone / rest, 0.0) if rest > 1e-9 * self.path else 0.0
        share = self.messages / max(self.last - self.first + 1, 1)
        return np.array(
            [
                math.log1p(self.repeated),
                wasted * length,
                math.log1p(self.moment_only),
                math.log1p(self.answered),
                share * length,
                self.size,
            ]
        )


class Watch:
    """Follows all clients of one server, message by message."""

    def __init__(self, sketch: Sketch) -> None:
        self.sketch = sketch
        self._trails: dict[str, Trail] = {}
        self._clock = 0
        self._deletions: list[tuple[int, str]] = []

    def __copy__(self) -> Watch:
        twin = Watch(self.sketch)
        twin._trails, twin._clock, twin._deletions = dict(self._trails), self._clock, self._deletions
        return twin

    def ahead(self, update: Update, client: str) -> Trail:
        """Return the client's trail as it would be after this message."""
        width = 2 * self.sketch.size
        old = self._trails.get(client) or Trail(np.zeros(width), np.zeros(width), first=self._clock, last=self._clock)
        add, delete = self.sketch(update.add), self.sketch(update.delete)
        net = add - delete
        step = float(np.linalg.norm(net))
        blocks = ((0.0, update.add), (1.0, update.delete))
        keys = [np.append(self.sketch.key(block), side) for side, block in blocks if not block.is_zero]
        grams = [v[: self.sketch.size] for v in (net, add, delete)]
        alone = np.linalg.norm(grams[0]) <= NEAR * (np.linalg.norm(grams[1]) + np.linalg.norm(grams[2]))
        return Trail(
            total=old.total + net,
            biggest=net if step > np.linalg.norm(old.biggest) else old.biggest,
            path=old.path + step,
            messages=old.messages + 1,
            repeated=old.repeated + sum(_among(key, old.seen) for key in keys),
            moment_only=old.moment_only + int(bool(alone) and step > 0),
            answered=old.answered + self._answers(client),
            size=max(old.size, math.log10(max(update.magnitude, 1e-12))),
            first=old.first,
            last=self._clock,
            seen=(*old.seen, *keys)[-KEPT:],
        )

    def record(self, update: Update, client: str) -> None:
        """Take a message into the trails."""
        self._trails[client] = self.ahead(update, client)
        self._deletions = [(at, who) for at, who in self._deletions if self._clock - at < AFTER and who != client]
        if not update.delete.is_zero and update.add.is_zero:
            self._deletions.append((self._clock, client))
        self._clock += 1

    def trail(self, client: str) -> Trail | None:
        """Return a client's trail, if it sent anything."""
        return self._trails.get(client)

    def remembered(self) -> Memory:
        """Return the clock, the last deletions and every trail."""
        trails: dict[str, Any] = {}
        arrays: dict[str, Matrix] = {}
        for i, (client, trail) in enumerate(self._trails.items()):
            trails[client] = {name: getattr(trail, name) for name in _PLAIN}
            seen = stacked(trail.seen, 2 * self.sketch.size + 1)
            arrays |= {f"total {i}": trail.total, f"biggest {i}": trail.biggest, f"seen {i}": seen}
        order = client_names(trails)
        plain = {"clock": self._clock, "deletions": [list(d) for d in self._deletions]}
        return Memory(plain | {"trails": trails, "order": order}, arrays)

    def restore(self, memory: Memory) -> None:
        """Take over what `remembered` returned."""
        values, arrays = memory.values, memory.arrays
        self._clock = int(values["clock"])
        self._deletions = [(int(at), who) for at, who in values["deletions"]]
        self._trails = {
            client: Trail(
                arrays[f"total {i}"],
                arrays[f"biggest {i}"],
                seen=tuple(arrays[f"seen {i}"]),
                **values["trails"][client],
            )
            for i, client in enumerate(values["order"])
        }

    def _answers(self, client: str) -> int:
        return int(any(who != client and self._clock - at <= AFTER for at, who in self._deletions))


def _among(key: Matrix, seen: tuple[Matrix, ...]) -> int:
    return int(bool(seen) and bool((np.linalg.norm(np.array(seen) - key, axis=1) <= NEAR).any()))
