"""A server's defences as one TOML file.

    version = 1

    [[admission]]
    rule = "positive-semidefinite"

    [[release]]
    rule = "posterior-noise"
    sigma = 0.2

    [accountant]
    rule = "identification"
    margin = 128

Rules are asked in the order of the file. Sizes that a rule asks for (d and c) come from the ledger, and the key of the
noise is made when the server is built unless the file gives one: a file without it is no secret. Names that rules and
options had once are still read, with an `OldNameWarning`.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from exhume.defence import accountants, admission, release
from exhume.defence.defences import Defences
from exhume.errors import InputError, OldNameWarning, unknown_name
from exhume.files import PRIVATE, atomic_file
from exhume.options import checked, first_error, is_secret, to_toml
from exhume.protocol.ledger import Ledger
from exhume.protocol.server import Server
from exhume.registry import Registry, spelt

__all__ = ["Config", "Defences", "Entry", "build", "build_server", "dump", "load", "parse", "resolved"]

_ANY_SIZE = {"d": 1, "c": 1, "grid": None, "gamma": None}
"""Stands for the sizes that a ledger will give, where only names and types are checked."""


class Entry(BaseModel):
    """One rule by its name, with its options. Secrets among them are not in its repr."""

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)

    rule: str

    @classmethod
    def of(cls, rule: str, **options: Any) -> Entry:
        """Return the entry of a rule with options."""
        return cls.model_validate({"rule": rule, **options})

    @property
    def options(self) -> dict[str, Any]:
        """The rule's options."""
        return dict(self.model_extra or {})

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        yield "rule", self.rule
        yield from ((name, "hidden" if is_secret(name) else value) for name, value in self.options.items())


class Config(BaseModel):
    """The defences of a server: what it refuses, what it lets out, what it keeps account of."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    version: Literal[1] = 1
    admission: tuple[Entry, ...] = Field(default=())
    release: tuple[Entry, ...] = Field(default=())
    accountant: Entry | None = None

    @property
    def has_secrets(self) -> bool:
        """Whether any option is a secret."""
        entries = (*self.admission, *self.release, *([] if self.accountant is None else [self.accountant]))
        return any(is_secret(name) for entry in entries for name, value in entry.options.items() if value is not None)


def load(path: str | Path) -> Config:
    """Read a configuration. Strict: an unknown key, rule or option is an error that suggests the nearest known one."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("configuration", "a TOML file that can be read", f"'{path}' ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("configuration", "a valid TOML file", f"'{path}': {error}") from None
    return parse(content)


def parse(content: Mapping[str, Any]) -> Config:
    """Check the content of a file: keys, the names of rules and options, and the options' types."""
    for key in content:
        if key not in Config.model_fields:
            raise unknown_name("key", key, Config.model_fields)
    try:
        config = Config.model_validate(dict(content))
    except ValidationError as error:
        raise first_error(error) from None
    return resolved(config)


def resolved(config: Config) -> Config:
    """Return a configuration by today's names, all names and types of options checked.

    Secrets that a rule cannot do without may still be missing: they need not be in a file.
    """
    found: dict[str, Any] = {
        "admission": tuple(_resolved(admission.REGISTRY, *place) for place in _places("admission", config.admission)),
        "release": tuple(_resolved(release.REGISTRY, *place) for place in _places("release", config.release)),
    }
    if config.accountant is not None:
        found["accountant"] = _resolved(accountants.REGISTRY, "accountant", config.accountant)
    return config.model_copy(update=found)


def dump(config: Config, path: str | Path | None = None) -> str:
    """Return a configuration as TOML, and write it if a path is given: for its owner only if it holds secrets."""
    lines = [f"version = {config.version}"]
    tables = [("[[admission]]", entry) for entry in config.admission]
    tables += [("[[release]]", entry) for entry in config.release]
    if config.accountant is not None:
        tables.append(("[accountant]", config.accountant))
    for title, entry in tables:
        lines += ["", title, f"rule = {to_toml(entry.rule)}"]
        lines += [f"{name} = {to_toml(value)}" for name, value in entry.options.items() if value is not None]
    text = "\n".join(lines) + "\n"
    if path is not None:
        with atomic_file(Path(path), PRIVATE if config.has_secrets else 0o666) as stream:
            stream.write(text.encode())
    return text


def build(config: Config, ledger: Ledger, *, given: Mapping[str, Any] | None = None) -> Defences:
    """Make the rules of a configuration for one ledger.

    Parameters
    ----------
    config
        The rules.
    ledger
        Gives the sizes that rules ask for.
    given
        What else a rule gets that asks for it and is not told by the configuration, such as a ``clock``.
    """
    config = resolved(config)
    sizes = {"d": ledger.d, "c": ledger.c, "grid": ledger.grid, "gamma": ledger.gamma, **(given or {})}
    rules = [_made(admission.REGISTRY, *place, sizes) for place in _places("admission", config.admission)]
    released = [_made(release.REGISTRY, *place, sizes) for place in _places("release", config.release)]
    chain = release.Chain(released) if released else None
    accountant = None
    if config.accountant is not None:
        accountant = _made(accountants.REGISTRY, "accountant", config.accountant, sizes)
        if getattr(accountant, "action", None) == "coarsen" and release.mask_of(chain) is not None:
            raise InputError(
                "accountant.action", "withhold or report beside a mask (coarsening shows true heads)", "coarsen"
            )
    return Defences(tuple(rules), chain, accountant)


def build_server(ledger: Ledger, config: Config | str | Path) -> Server:
    """Return a server with the defences of a configuration, or of the file that holds it."""
    return build(config if isinstance(config, Config) else load(config), ledger).new_server(ledger)


def _places(kind: str, entries: tuple[Entry, ...]) -> Iterator[tuple[str, Entry]]:
    """Return entries with what errors call their places."""
    return ((f"{kind}[{i}] ({entry.rule})", entry) for i, entry in enumerate(entries))


def _resolved(registry: Registry[Any], where: str, entry: Entry) -> Entry:
    rule = _find(registry, entry.rule)
    if spelt(entry.rule) != spelt(rule.name):
        _tell_of_old_name(f"{where}: the rule '{entry.rule}'", rule.name)
    options: dict[str, Any] = {}
    former: Mapping[str, str] = getattr(rule, "former_options", {})
    for name, value in entry.options.items():
        current = former.get(name, name)
        if current != name:
            _tell_of_old_name(f"{where}: the option '{name}'", current)
        if current in options or (current != name and current in entry.options):
            raise InputError(f"{where}.{current}", "given once", f"also as '{name}'")
        options[current] = value
    checked(where, rule, options, _ANY_SIZE, without=is_secret)
    return Entry.of(rule.name, **options)


def _find(registry: Registry[Any], name: str) -> Any:
    """Return a rule by its name or, if no rule has that name now, by one that it had once."""
    former = [rule for rule in registry.values() if spelt(name) in getattr(rule, "former", ())]
    return former[0] if former and spelt(name) not in map(spelt, registry) else registry.find(name)


def _tell_of_old_name(what: str, new: str) -> None:
    warnings.warn(f"{what} is now called '{new}'", OldNameWarning, stacklevel=2)


def _made(registry: Registry[Any], where: str, entry: Entry, sizes: Mapping[str, Any]) -> Any:
    rule = registry.find(entry.rule)
    return rule(**checked(where, rule, entry.options, sizes))
