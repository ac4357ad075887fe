"""The registry that data sets and encoders share: one module each, found by name."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import entry_points
from types import ModuleType
from typing import TypeVar, cast

from exhume.errors import InputError

__all__ = ["discover"]

Entry = TypeVar("Entry")


def discover(package: ModuleType, attribute: str, group: str, kind: type[Entry]) -> dict[str, Entry]:
    """Every entry by name: the tuple `attribute` of each module in `package`, then installed entry points.

    Parameters
    ----------
    package : module
        The package whose public modules are searched.
    attribute : str
        The tuple of entries that each of them defines.
    group : str
        The entry-point group through which other distributions add theirs.
    kind : type
        What every entry must be; it has a `name`.

    Raises
    ------
    InputError
        If two entries claim one name: nothing is overwritten in silence.
    """
    entries: list[Entry] = []
    for info in pkgutil.iter_modules(package.__path__):
        if not info.name.startswith("_"):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            entries.extend(cast("tuple[Entry, ...]", getattr(module, attribute)))
    entries.extend(cast("Entry", point.load()) for point in entry_points(group=group))
    known: dict[str, Entry] = {}
    for entry in entries:
        name = str(getattr(entry, "name", ""))
        if not isinstance(entry, kind) or name in known:
            raise InputError(group, f"entries of {kind.__name__} with names of their own", repr(entry))
        known[name] = entry
    return known
