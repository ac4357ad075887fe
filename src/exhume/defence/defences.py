"""The rules of one server, and what they remember as one state."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from exhume.defence.memory import Memory, Saveable, nested
from exhume.defence.release.chain import identity
from exhume.errors import InputError
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Accountant, AdmissionRule, Heads, ReleaseRule
from exhume.protocol.server import Server

__all__ = ["Defences"]


@dataclass(frozen=True)
class Defences(Saveable):
    """The rules that a configuration stands for, made for one ledger.

    `save` writes what all rules and the accountant remember, with their secrets; a rule that remembers something (it
    has a `record` of its own) and is no `Saveable` is an error by name. `load` takes over all of it, or on any error
    nothing. A state of other defences is refused by name. What no rule remembers may change in between: the options of
    admission rules without a memory, and the clients that `SignedMessages` knows.
    """

    name = "defences"

    admission: tuple[AdmissionRule, ...]
    release: ReleaseRule | None
    accountant: Accountant | None

    @classmethod
    def of(cls, server: Server) -> Defences:
        """Return the rules of a server, as they are in it."""
        return cls(server.admission, server.release, server.accountant)

    def server(self, ledger: Ledger) -> Server:
        """Return a server behind them; what does not suit the ledger's size is an error now, not at the first head."""
        return Server(ledger, admission=self.admission, release=self.release, accountant=self.accountant)

    def new_server(self, ledger: Ledger) -> Server:
        """Return a server that begins with this ledger: rules may refuse what it holds before anybody sent anything."""
        for rule in (*self.admission, self.release):
            if rule is not None:
                rule.check_start(ledger.summary)
        return self.server(ledger)

    def configuration(self) -> dict[str, Any]:
        """Return what the rules are."""
        names = [getattr(rule, "name", "") or type(rule).__name__ for rule in self.admission]
        release = self.release if self.release is not None else Heads("float64")  # as a server has it
        accountant = None if self.accountant is None else identity(self.accountant)
        return {"admission": names, "release": identity(release), "accountant": accountant}

    def remembered(self) -> Memory:
        """Return the saved states of everything that remembers, by its place."""
        return Memory(arrays={place: nested(part.save()) for place, part in self._parts()})

    def restore(self, memory: Memory) -> None:
        """Take over all states, or on any error none."""
        parts = list(self._parts())
        if {place for place, _ in parts} != set(memory.arrays):
            raise InputError("state of defences", ", ".join(place for place, _ in parts), ", ".join(memory.arrays))
        states = {place: state.tobytes() for place, state in memory.arrays.items()}
        for place, part in parts:
            try:
                deepcopy(part).load(states[place])
            except InputError:
                raise
            except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
                raise InputError(f"state of {place}", "one that this version can read", repr(error)) from error
        for place, part in parts:
            part.load(states[place])

    def _parts(self) -> Iterator[tuple[str, Saveable]]:
        """Return everything that remembers, by its place."""
        rules: list[tuple[str, Any, Any]] = [
            (f"admission[{i}]", rule, AdmissionRule) for i, rule in enumerate(self.admission)
        ]
        if self.release is not None:
            rules.append(("release", self.release, ReleaseRule))
        if self.accountant is not None:
            rules.append(("accountant", self.accountant, None))
        for place, rule, kind in rules:
            if isinstance(rule, Saveable):
                yield place, rule
            elif kind is None or type(rule).record is not kind.record:
                raise InputError(place, "a Saveable rule, since it remembers", type(rule).__name__)
