"""Tables and figures by name, in the order of the page. Other packages add theirs by entry point ``exhume.paper``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from exhume.errors import DataError, InputError, unknown_name
from exhume.paper.table import Table

__all__ = ["about", "by_names", "missing", "tables"]

_MODULES = (
    "rank_threshold",
    "designed_recovery",
    "designed_precision",
    "attacker_data",
    "attacker_complete",
    "attacker_facts",
    "rank_sensitivity",
    "state_diagnostics",
    "replay_psd",
    "feature_error",
    "dinov2",
    "probe_scale",
    "detectability",
    "prediction_change",
    "amplification_bound",
    "class_replay",
    "client_replay",
    "local_decoder",
    "latent_diffusion",
)


@lru_cache(maxsize=1)
def tables() -> dict[str, Table]:
    """Return every table and figure."""
    found: dict[str, Table] = {}
    ours = [import_module(f"exhume.paper.{name}").TABLE for name in _MODULES]
    for table in [*ours, *(point.load() for point in entry_points(group="exhume.paper"))]:
        if table.name in found:
            raise InputError("table", "a name that is not taken", f"'{table.name}' twice")
        found[table.name] = table
    return found


def by_names(names: Iterable[str], home: str | Path | None = None) -> list[Table]:
    """Return tables by name, in the order of the page; ``all`` is every one."""
    wanted = set(names)
    known = tables()
    for name in sorted(wanted - {"all"}):
        if name not in known:
            raise unknown_name("table", name, [*known, "all"])
        if reason := missing(known[name], home):
            raise DataError(f"the table {name} {reason}")
    return [
        table for name, table in known.items() if name in wanted or ("all" in wanted and missing(table, home) is None)
    ]


def missing(table: Table, home: str | Path | None = None) -> str | None:
    """Return what a table lacks here to run, in words; ``all`` leaves such tables out, by name they are an error."""
    return None if table.lacks is None else table.lacks(home)


def about(table: Table) -> str:
    """Return what the module of a table says about its experiment, as one paragraph."""
    module = import_module(table.rows.__module__)
    return " ".join((module.__doc__ or "").split())
