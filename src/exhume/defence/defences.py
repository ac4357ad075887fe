"""The rules of one server, and what they remember as one state."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from exhume.defence._state import nested, pack, unpack
from exhume.defence.release import Chain
from exhume.defence.release._base import Rule
from exhume.errors import InputError
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Accountant, AdmissionRule, Heads, ReleaseRule
from exhume.protocol.server import Server

__all__ = ["Defences"]


@runtime_checkable
class _Saveable(Protocol):
    def save(self) -> bytes: ...

    def load(self, data: bytes) -> None: ...


@dataclass(frozen=True)
class Defences:
    """The rules that a configuration stands for, made for one ledger."""

    admission: tuple[AdmissionRule, ...]
    release: ReleaseRule | None
    accountant: Accountant | None

    @classmethod
    def of(cls, server: Server) -> Defences:
        """Return the rules of a server, as they are in it."""
        return cls(server.admission, server.release, server.accountant)

    def server(self, ledger: Ledger) -> Server:
        """Return a server behind them."""
        return Server(ledger, admission=self.admission, release=self.release, accountant=self.accountant)

    def save(self) -> bytes:
        """Write what all rules and the accountant remember; it holds their secrets.

        Raises
        ------
        InputError
            Names a rule that remembers something (it has a `record` of its own) and cannot save it.
        """
        return pack("defences", self._shape(), {}, {place: nested(part.save()) for place, part in self._parts()})

    def load(self, data: bytes) -> None:
        """Take over what was saved: all of it, or on any error nothing.

        A state of other defences is refused by name. What no rule remembers may change in between: the options of rules
        without a memory, and the clients that `Origin` knows.
        """
        saved = unpack(data, "defences", self._shape())
        parts = list(self._parts())
        if {place for place, _ in parts} != set(saved.arrays):
            raise InputError("state of defences", ", ".join(place for place, _ in parts), ", ".join(saved.arrays))
        states = {place: state.tobytes() for place, state in saved.arrays.items()}
        for place, part in parts:
            try:
                deepcopy(part).load(states[place])
            except InputError:
                raise
            except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
                raise InputError(f"state of {place}", "one that this version can read", repr(error)) from error
        for place, part in parts:
            part.load(states[place])

    def _parts(self) -> Iterator[tuple[str, _Saveable]]:
        """Return everything that remembers, by its place."""
        rules: list[tuple[str, Any, Any]] = [
            (f"admission[{i}]", rule, AdmissionRule) for i, rule in enumerate(self.admission)
        ]
        if self.release is not None:
            rules.append(("release", self.release, ReleaseRule))
        for place, rule, kind in rules:
            if type(rule).record is kind.record:
                continue  # It hears of nothing, so it has nothing to remember.
            yield place, _saveable(place, rule)
        if self.accountant is not None:
            yield "accountant", _saveable("accountant", self.accountant)

    def _shape(self) -> dict[str, Any]:
        names = [getattr(rule, "name", "") or type(rule).__name__ for rule in self.admission]
        release = self.release if self.release is not None else Heads("float64")  # as a server has it
        return {"admission": names, "release": repr(release), "accountant": repr(self.accountant)}


def _saveable(place: str, part: Any) -> _Saveable:
    """Return a part that can be saved with everything in it, or say which rule stands in the way."""
    if not isinstance(part, _Saveable):
        raise InputError(place, "a rule with save() and load(), since it remembers", type(part).__name__)
    if isinstance(part, Chain):
        for i, rule in enumerate(part.rules):  # a chain saves its own kind of rule only
            if type(rule).record is not ReleaseRule.record and not isinstance(rule, Rule):
                raise InputError(
                    f"{place}[{i}]", "a rule that a chain can save, since it remembers", type(rule).__name__
                )
    return part
