"""The rules of a simulated server: found, given their secrets, put into words, and what an attacker knows of them."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from exhume.defence import accountants, admission, release
from exhume.defence.accountants import IdentificationAccountant
from exhume.defence.admission import SignedMessages, sign
from exhume.defence.bounds import Bounds
from exhume.defence.config import Config, Defences, Entry, build, load
from exhume.defence.default import hardened_config
from exhume.defence.release import Chain, accounts_of, rules_of
from exhume.errors import InputError
from exhume.options import is_secret
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Heads, ReleaseRule
from exhume.protocol.server import Server
from exhume.protocol.summary import Update
from exhume.simulate.scenario import BLOCK, BLOCKWISE_FROM, Scenario

__all__ = [
    "HARDENED",
    "UPLOADS",
    "Known",
    "bounds_of",
    "build_defences",
    "figures_of",
    "in_words",
    "known_of",
    "name_of",
    "precision_of",
    "resolve",
    "signing_key",
    "uploads_of",
    "watched",
]

HARDENED = "hardened"
"""The word for the default configuration of `exhume.hardened`, in place of a file."""

UPLOADS = 3
"""Rounds in which the clients of a simulation send their rows."""

INEXACT = {"mask", "shape", "noise"}
"""Stages of release rules after which a head is not the ledger's own."""

Signing = Callable[[Update, str, int, bytes], Update]


@dataclass(frozen=True)
class Known:
    """What an attacker who has read the configuration knows of a server's rules."""

    bare: bool
    """Whether there is no rule at all: whatever comes is taken, every head is released."""
    exact: bool
    """Whether heads come out unrounded and without noise."""
    gated: bool
    """Whether heads may be withheld."""
    counts_changes: bool
    """Whether enough changes of anybody's bring a head, so that an attacker can bring it about alone."""
    show_rows: bool
    """Whether a message counts only with its rows."""
    sign: Signing | None
    """How messages are tagged, where they must be."""


def known_of(server: Server) -> Known:
    """Return what the rules of a server tell those who know them."""
    released = rules_of(server.release)
    stages = {getattr(rule, "stage", None) for rule in released}
    rounded = any(isinstance(rule, Heads) and rule.precision != "float64" for rule in released)
    asked = frozenset().union(*(getattr(rule, "asks", ()) for rule in server.admission))
    withholds = server.accountant is not None and getattr(server.accountant, "action", "") != "report"
    return Known(
        bare=not server.admission and all(isinstance(rule, Heads) for rule in released) and server.accountant is None,
        exact=not stages & INEXACT and not rounded,
        gated=bool(stages & {"gate", "budget"}) or withholds,
        counts_changes=any(getattr(rule, "counts_changes", False) for rule in released),
        show_rows="rows" in asked,
        sign=sign if "tag" in asked else None,
    )


def name_of(defence: str) -> str:
    """Return what a report calls the settings: the file's name without its folder."""
    return HARDENED if defence == HARDENED else Path(defence).name


def resolve(defence: str, d: int, rows: int | None, scenario: Scenario | None = None) -> Config:
    """Return the configuration that a file holds, or the default one for so many features and rows.

    The default needs bounds to be built: they are measured on a scenario's rows, as the operator would on its own.
    """
    if defence == HARDENED:
        if scenario is None:
            return hardened_config(d, rows=rows)
        return hardened_config(d, rows=rows, bounds=bounds_of(scenario), founding=uploads_of(scenario))
    try:
        return load(defence)
    except InputError as error:
        raise InputError(f"defence: {error.field}", error.allowed, error.got) from None


def bounds_of(scenario: Scenario) -> Bounds:
    """Return bounds as an operator measures them: on its own rows where it has some, on everybody's where not."""
    rows = scenario.calibration if len(scenario.calibration) else np.concatenate(scenario.parts)
    later = [len(more) for more in scenario.reserve] or [0] * len(scenario.parts)
    most = max(len(part) + more for part, more in zip(scenario.parts, later, strict=True))
    blocks = np.array_split(rows, 1 if scenario.d < BLOCKWISE_FROM else -(-len(rows) // BLOCK))
    measured = [Bounds.measure(scenario.features[block], client_rows=2 * max(most, 1)) for block in blocks]
    return max(measured, key=lambda bounds: bounds.longest)


def uploads_of(scenario: Scenario) -> int:
    """Return in how many submissions everybody's rows come in at the least: an operator shows no head before."""
    return UPLOADS * sum(len(part) >= UPLOADS for part in scenario.parts)


def precision_of(config: Config) -> str:
    """Return the number format in which a configuration has heads released."""
    last = next((entry for entry in reversed(config.release) if entry.rule == "heads"), None)
    return "float64" if last is None else str(last.options.get("precision", "float64"))


def build_defences(
    rules: Config | Defences | ReleaseRule, ledger: Ledger, clients: Iterable[str], seed: int
) -> Defences:
    """Make the rules for one ledger.

    A secret that a configuration leaves open follows from the seed, so that a run can be repeated; the keys of signed
    messages are always those of the simulated clients.
    """
    if isinstance(rules, Defences):
        return rules
    if isinstance(rules, ReleaseRule):
        return Defences((), Chain([rules]), None)
    keys = {client: signing_key(client, seed).decode() for client in clients}
    kept = [_keyed(_seeded(entry, admission.REGISTRY, seed, i), keys) for i, entry in enumerate(rules.admission)]
    released = [_seeded(entry, release.REGISTRY, seed, i) for i, entry in enumerate(rules.release)]
    accountant = None if rules.accountant is None else _seeded(rules.accountant, accountants.REGISTRY, seed, 0)
    made = rules.model_copy(update={"admission": tuple(kept), "release": tuple(released), "accountant": accountant})
    try:
        return build(made, ledger)
    except InputError as error:
        raise InputError(f"defence: {error.field}", error.allowed, error.got) from None


def watched(defences: Defences, d: int) -> Defences:
    """Return defences with an accountant that only reports, where they have none: it changes no head."""
    if defences.accountant is not None or d < 2:
        return defences
    return replace(defences, accountant=IdentificationAccountant(1, action="report"))


def signing_key(client: str, seed: int) -> bytes:
    """Return the key with which a simulated client signs."""
    return _digest(f"key of {client}", seed).encode()


def figures_of(server: Server, number: int) -> dict[str, float] | None:
    """Return the privacy figures of one deletion; of several accounts or clients, the worst one's."""
    found = [d.as_one() for rule in accounts_of(server.release) for d in rule.deletions if d.number == number]
    return max(found, key=lambda d: d.total).figures() if found else None


def in_words(config: Config) -> list[tuple[str, str, str]]:
    """Return stage, name and options of every rule in force, secrets left out."""
    entries = [("admission", entry) for entry in config.admission] + [("release", entry) for entry in config.release]
    if config.accountant is not None:
        entries.append(("accountant", config.accountant))
    return [(stage, entry.rule, _options(entry)) for stage, entry in entries]


def _options(entry: Entry) -> str:
    shown = ((name, value) for name, value in entry.options.items() if not is_secret(name) and value is not None)
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
    # The secrets were always those of the name as Python writes it.
    secret = _digest(f"{entry.rule.replace('-', '_')} {place}", seed)
    made = {"key": secret, "seed": int(secret[:15], 16)}
    missing = {name: value for name, value in made.items() if name in wanted and entry.options.get(name) is None}
    return Entry.of(entry.rule, **{**entry.options, **missing})


def _keyed(entry: Entry, keys: Mapping[str, str]) -> Entry:
    if entry.rule != SignedMessages.name:
        return entry
    return Entry.of(entry.rule, **{**entry.options, "keys": dict(keys)})


def _digest(purpose: str, seed: int) -> str:
    return hashlib.sha256(f"exhume audit {seed} {purpose}".encode()).hexdigest()
