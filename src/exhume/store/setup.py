"""What a store is of: the ledger's size and mode, the defences, an app's plan. Any other is refused by name."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from exhume.defence.config import Config, build, resolved
from exhume.defence.defences import Defences
from exhume.errors import InputError, StoreError
from exhume.options import is_secret
from exhume.protocol.ledger import Ledger
from exhume.protocol.server import Server
from exhume.protocol.summary import Summary

__all__ = ["ServerSetup", "StepClock"]


class StepClock:
    """The time of the step that is being done: of the day, and never earlier than that of the step before.

    Rules that ask for a clock get this one, so that a step done again from the log is the same step.
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def advance(self) -> float:
        """Go on to the present, or stay where the clock of the machine has gone back."""
        self.now = max(self.now, time.time())
        return self.now

    def __call__(self) -> float:
        """Return the time of the step."""
        return self.now


@dataclass(frozen=True)
class ServerSetup:
    """A server as it is configured: what a store remembers of it, and refuses to differ from.

    Parameters
    ----------
    d, c, gamma, grid
        Those of the ledger.
    defence
        The rules; secrets among their options are in no store.
    public
        Totals of public rows, for a rule that asks for them. A store keeps a digest of them, and takes no others.
    app
        What else must not change while the store is used: an app's settings by which clients know what they sent.
    """

    d: int
    c: int
    gamma: float
    grid: float | None = None
    defence: Config = field(default_factory=Config)
    public: Summary | None = field(default=None, repr=False, compare=False)
    app: Mapping[str, str | int | float] = field(default_factory=dict)

    def ledger(self) -> Ledger:
        """Return the ledger of nobody's data."""
        return Ledger.zeros(self.d, self.c, self.gamma, self.grid)

    def server(self, ledger: Ledger, clock: StepClock) -> Server:
        """Return a server behind these defences, for a ledger and a state that were saved."""
        return self._defences(ledger, clock).server(ledger)

    def new_server(self, clock: StepClock) -> Server:
        """Return a server that begins with nobody's data."""
        ledger = self.ledger()
        return self._defences(ledger, clock).new_server(ledger)

    def _defences(self, ledger: Ledger, clock: StepClock) -> Defences:
        given: dict[str, Any] = {"clock": clock}
        if self.public is not None:
            given["public"] = self.public
        return build(self.defence, ledger, given=given)

    def fingerprint(self) -> dict[str, str]:
        """Return everything that a store of this configuration must agree with, by name."""
        config = resolved(self.defence)
        entries = [(f"defence.admission[{i}]", entry) for i, entry in enumerate(config.admission)]
        entries += [(f"defence.release[{i}]", entry) for i, entry in enumerate(config.release)]
        if config.accountant is not None:
            entries.append(("defence.accountant", config.accountant))
        found: dict[str, Any] = {"d": self.d, "c": self.c, "gamma": self.gamma, "grid": self.grid}
        if self.public is not None:
            found["defence.public"] = _digest(self.public)
        for place, entry in entries:
            found[place] = entry.rule
            found |= {f"{place}.{name}": value for name, value in entry.options.items() if not is_secret(name)}
        found |= {f"app.{name}": value for name, value in self.app.items()}
        return {name: json.dumps(value, sort_keys=True, default=str) for name, value in found.items()}

    def check(self, theirs: str) -> None:
        """Refuse the fingerprint of another configuration by the first name that differs."""
        try:
            stored = dict(json.loads(theirs))
        except ValueError:
            raise StoreError("the store's configuration cannot be read") from None
        ours = self.fingerprint()
        for name in sorted({*ours, *stored}):
            if ours.get(name) != stored.get(name):
                kept = stored.get(name, "left out")
                raise InputError(f"{name} of the configuration", f"{kept}, as in the store", ours.get(name, "nothing"))


def _digest(public: Summary) -> str:
    """Return what tells one file of public rows from another."""
    made = hashlib.sha256(b"exhume public rows 1")
    for part in (public.gram, public.moment):
        made.update(np.ascontiguousarray(part, dtype="<f8").tobytes())
    return f"sha256:{made.hexdigest()}"
