"""Tables and figures by name, in the order of the page. Other packages add theirs by entry point ``exhume.paper``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points

from exhume.errors import DataError, InputError, unknown_name
from exhume.paper.plan import Study
from exhume.paper.table import Table

__all__ = ["about", "by_names", "runnable", "tables"]

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


def by_names(names: Iterable[str]) -> list[Table]:
    """Return tables by name, in the order of the page; ``all`` is every one."""
    wanted = set(names)
    known = tables()
    for name in sorted(wanted - {"all"}):
        if name not in known:
            raise unknown_name("table", name, [*known, "all"])
    return [table for name, table in known.items() if name in wanted or "all" in wanted]


def runnable(names: Iterable[str], studies: Sequence[Study]) -> tuple[list[Table], dict[str, str]]:
    """Return the tables of these names that can run here, and of the others what they lack.

    Raises
    ------
    DataError
        If one that was named itself, and not only by ``all``, cannot run.
    """
    named = set(names)
    found: list[Table] = []
    left: dict[str, str] = {}
    for table in by_names(named):
        lacking = [] if table.lacks is None else [reason for study in studies if (reason := table.lacks(study))]
        if not lacking:
            found.append(table)
        elif table.name in named:
            raise DataError(f"the table {table.name} {lacking[0]}")
        else:
            left[table.name] = lacking[0]
    return found, left


def about(table: Table) -> str:
    """Return what the module of a table says about its experiment, as one paragraph."""
    module = import_module(table.rows.__module__)
    return " ".join((module.__doc__ or "").split())
