"""Tables and figures by name, found in the modules of this room. Other packages add theirs by entry point."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

from exhume.errors import DataError, unknown_name
from exhume.paper.study import Study
from exhume.paper.table import Table
from exhume.registry import Registry, spelt

__all__ = ["REGISTRY", "about", "by_names", "runnable", "tables"]

REGISTRY = Registry("table", "exhume.paper", "TABLES", "exhume.paper", Table)

_ALL = "all"


def tables() -> dict[str, Table]:
    """Return every table and figure, in the order of the page."""
    return dict(sorted(REGISTRY.items(), key=lambda item: (item[1].order, item[0])))


def by_names(names: Iterable[str]) -> list[Table]:
    """Return tables by name, hyphens and underscores alike, in the order of the page; ``all`` is every one."""
    known = tables()
    wanted = {spelt(name): name for name in names}
    for name in sorted(wanted.keys() - map(spelt, [*known, _ALL])):
        raise unknown_name("table", wanted[name], [*known, _ALL])
    return [table for name, table in known.items() if spelt(name) in wanted or _ALL in wanted]


def runnable(names: Iterable[str], studies: Sequence[Study]) -> tuple[list[Table], dict[str, str]]:
    """Return the tables of these names that can run here, and of the others what they lack.

    Raises
    ------
    DataError
        If one that was named itself, and not only by ``all``, cannot run.
    """
    chosen = list(names)
    named = set(map(spelt, chosen))
    found: list[Table] = []
    left: dict[str, str] = {}
    for table in by_names(chosen):
        lacking = [] if table.lacks is None else [reason for study in studies if (reason := table.lacks(study))]
        if not lacking:
            found.append(table)
        elif spelt(table.name) in named:
            raise DataError(f"the table {table.name} {lacking[0]}")
        else:
            left[table.name] = lacking[0]
    return found, left


def about(table: Table) -> str:
    """Return what the module of a table says about its experiment, as one paragraph."""
    module = inspect.getmodule(table.rows)
    return " ".join((getattr(module, "__doc__", None) or "").split())
