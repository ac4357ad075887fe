"""The operator's own settings: a defence configuration found, given its secrets, and put into words."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from exhume.defence.admission import REGISTRY as ADMISSION
from exhume.defence.config import ACCOUNTANTS, Config, Defences, Entry, build, load
from exhume.defence.default import hardened_config
from exhume.defence.release import REGISTRY as RELEASE
from exhume.errors import InputError
from exhume.protocol.ledger import Ledger

__all__ = ["CONFIGURED", "HARDENED", "build_defences", "in_words", "key_of", "name_of", "resolve"]

HARDENED = "hardened"
"""The word for the default configuration of `exhume.hardened`, in place of a file."""

CONFIGURED = "as configured"
"""The head format of a server whose configuration decides it."""

SECRETS = ("key", "keys", "seed")
"""Options that no report may show."""


def name_of(defence: str) -> str:
    """Return what a report calls the settings: the file's name without its folder."""
    return HARDENED if defence == HARDENED else Path(defence).name


def resolve(defence: str, d: int, rows: int | None) -> Config:
    """Return the configuration that a file holds, or the default one for so many features and rows."""
    if defence == HARDENED:
        return hardened_config(d, rows=rows)
    try:
        return load(defence)
    except InputError as error:
        raise InputError(f"defence: {error.field}", error.allowed, error.got) from None


def build_defences(config: Config, ledger: Ledger, clients: Iterable[str], seed: int) -> Defences:
    """Make the rules for one ledger.

    A secret that the file leaves open follows from the audit's seed, so that a run can be repeated; the keys of
    ``origin`` are always those of the audit's own clients.
    """
    keys = {client: key_of(client, seed).decode() for client in clients}
    admission = [_keyed(_seeded(entry, ADMISSION, seed, i), keys) for i, entry in enumerate(config.admission)]
    release = [_seeded(entry, RELEASE, seed, i) for i, entry in enumerate(config.release)]
    accountant = None if config.accountant is None else _seeded(config.accountant, ACCOUNTANTS, seed, 0)
    made = config.model_copy(
        update={"admission": tuple(admission), "release": tuple(release), "accountant": accountant}
    )
    try:
        return build(made, ledger)
    except InputError as error:
        raise InputError(f"defence: {error.field}", error.allowed, error.got) from None


def key_of(client: str, seed: int) -> bytes:
    """Return the key with which a simulated client signs."""
    return _digest(f"key of {client}", seed).encode()


def in_words(config: Config) -> list[tuple[str, str, str]]:
    """Return stage, name and options of every rule in force, secrets left out."""
    entries = [("admission", entry) for entry in config.admission] + [("release", entry) for entry in config.release]
    if config.accountant is not None:
        entries.append(("accountant", config.accountant))
    return [(stage, entry.rule, _options(entry)) for stage, entry in entries]


def _options(entry: Entry) -> str:
    shown = ((name, value) for name, value in entry.options.items() if name not in SECRETS and value is not None)
    return ", ".join(f"{name} {_value(value)}" for name, value in shown)


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple, Mapping)):
        return f"({len(value)} values)"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _seeded(entry: Entry, registry: Mapping[str, Callable[..., Any]], seed: int, place: int) -> Entry:
    """Return an entry with the secrets that its rule would otherwise draw."""
    rule = registry.get(entry.rule)
    if rule is None:
        return entry
    wanted = inspect.signature(rule).parameters
    secret = _digest(f"{entry.rule} {place}", seed)
    made = {"key": secret, "seed": int(secret[:15], 16)}
    missing = {name: value for name, value in made.items() if name in wanted and entry.options.get(name) is None}
    return Entry.of(entry.rule, **{**entry.options, **missing})


def _keyed(entry: Entry, keys: Mapping[str, str]) -> Entry:
    return Entry.of(entry.rule, **{**entry.options, "keys": dict(keys)}) if entry.rule == "origin" else entry


def _digest(purpose: str, seed: int) -> str:
    return hashlib.sha256(f"exhume audit {seed} {purpose}".encode()).hexdigest()
