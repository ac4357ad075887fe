"""Things of one kind, found by name: the modules of a folder first, then what other packages bring.

Adding a thing is adding one module to its folder, or an entry point to another package. Help, completion, lists and
parametrised tests read the registry, so nothing else has to be told.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import entry_points
from inspect import Parameter, signature
from typing import TypeVar, cast

from exhume.errors import InputError, unknown_name

__all__ = ["Registry", "call", "discover", "spelt"]

Entry = TypeVar("Entry")
Result = TypeVar("Result")


def spelt(name: str) -> str:
    """Return a name as people write it: with hyphens, whatever came."""
    return name.replace("_", "-")


def discover(package: str, attribute: str, group: str, kind: type[Entry]) -> dict[str, Entry]:
    """Every entry by name: the tuple ``attribute`` of each module in ``package``, then installed entry points.

    Parameters
    ----------
    package
        The package whose public modules are searched.
    attribute
        The tuple of entries that each of them defines; a module without one is no place of entries.
    group
        The entry-point group through which other distributions add theirs: an entry, or a tuple of them.
    kind
        What every entry must be, an instance or a subclass of it; it has a ``name``.

    Raises
    ------
    InputError
        If two entries claim one name, whatever its hyphens: nothing is overwritten in silence.
    """
    entries: list[object] = []
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if not info.name.startswith("_"):
            entries.extend(getattr(importlib.import_module(f"{package}.{info.name}"), attribute, ()))
    for point in entry_points(group=group):
        loaded = point.load()
        entries.extend(loaded if isinstance(loaded, tuple) else (loaded,))
    known: dict[str, Entry] = {}
    for entry in entries:
        name = getattr(entry, "name", None)
        fits = issubclass(entry, kind) if isinstance(entry, type) else isinstance(entry, kind)
        if not fits or not isinstance(name, str) or not name or spelt(name) in map(spelt, known):
            raise InputError(group, f"entries of {kind.__name__} with names of their own", repr(entry))
        known[name] = cast("Entry", entry)
    return known


class Registry(Mapping[str, Entry]):
    """Everything of one kind by name, searched for on first use.

    Parameters
    ----------
    noun
        What errors call one of them.
    package, attribute, group, kind
        Where to look, as in `discover`.
    """

    def __init__(self, noun: str, package: str, attribute: str, group: str, kind: type[Entry]) -> None:
        self.noun, self.group = noun, group
        self._where = (package, attribute, group, kind)

    @cached_property
    def _entries(self) -> dict[str, Entry]:
        package, attribute, group, kind = self._where
        return discover(package, attribute, group, kind)

    def find(self, name: str, field: str | None = None) -> Entry:
        """Return an entry by its name, hyphens and underscores alike; else an error suggests the nearest name."""
        for known, entry in self._entries.items():
            if spelt(known) == spelt(name):
                return entry
        raise unknown_name(field or self.noun, name, self._entries)

    def renew(self) -> None:
        """Forget what was found, so that the next use searches again (for tests that install a package)."""
        self.__dict__.pop("_entries", None)

    def __getitem__(self, name: str) -> Entry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Registry({self.noun}: {', '.join(self._entries)})"


def call(function: Callable[..., Result], name: str, *seen: object, knowledge: Mapping[str, object]) -> Result:
    """Call a registered ``function(*seen, ...)`` with those of the named facts that it has keywords for.

    Raises
    ------
    InputError
        If it must have one that is not among them.
    """
    keywords = {p.name: p for p in signature(function).parameters.values() if p.kind is Parameter.KEYWORD_ONLY}
    for key, parameter in keywords.items():
        if parameter.default is Parameter.empty and key not in knowledge:
            raise InputError(key, f"given, which '{name}' cannot do without", "nothing")
    return function(*seen, **{key: value for key, value in knowledge.items() if key in keywords})
