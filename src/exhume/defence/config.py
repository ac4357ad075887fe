"""A server's defences as one TOML file.

    version = 1

    [[admission]]
    rule = "positive"

    [[release]]
    rule = "posterior_noise"
    sigma = 0.2

    [accountant]
    rule = "identification"
    margin = 128

Rules are asked in the order of the file. Sizes that a rule asks for (d and c) come from the ledger, and the key of the
noise is made when the server is built unless the file gives one: a file without it is no secret.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from exhume.defence import admission
from exhume.defence._options import checked, first_error, to_toml
from exhume.defence.accountant import IdentificationAccountant
from exhume.defence.defences import Defences
from exhume.defence.release import Chain, DeletionMask, find
from exhume.errors import InputError, unknown_name
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Accountant, AdmissionRule, ReleaseRule
from exhume.protocol.server import Server

__all__ = ["ACCOUNTANTS", "Config", "Defences", "Entry", "build", "build_server", "dump", "load"]

ACCOUNTANTS: dict[str, type[Accountant]] = {IdentificationAccountant.name: IdentificationAccountant}


class Entry(BaseModel):
    """One rule by its name, with its options."""

    model_config = ConfigDict(frozen=True, extra="allow")

    rule: str

    @classmethod
    def of(cls, rule: str, **options: Any) -> Entry:
        """Return the entry of a rule with options."""
        return cls.model_validate({"rule": rule, **options})

    @property
    def options(self) -> dict[str, Any]:
        """The rule's options."""
        return dict(self.model_extra or {})


class Config(BaseModel):
    """The defences of a server: what it refuses, what it lets out, what it keeps account of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    admission: tuple[Entry, ...] = Field(default=())
    release: tuple[Entry, ...] = Field(default=())
    accountant: Entry | None = None


def load(path: str | Path) -> Config:
    """Read a configuration. Strict: an unknown key or rule is an error that suggests the nearest known one."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("configuration", "a TOML file that can be read", f"'{path}' ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("configuration", "a valid TOML file", f"'{path}': {error}") from None
    return parse(content)


def parse(content: Mapping[str, Any]) -> Config:
    """Check the content of a file: keys and the names of rules and options."""
    for key in content:
        if key not in Config.model_fields:
            raise unknown_name("key", key, Config.model_fields)
    try:
        config = Config.model_validate(dict(content))
    except ValidationError as error:
        raise first_error("", error) from None
    for i, entry in enumerate(config.release):
        checked(f"release[{i}] ({entry.rule})", find(entry.rule), entry.options, {})
    if config.accountant is not None:
        checked("accountant", _accountant(config.accountant.rule), config.accountant.options, {})
    return config


def dump(config: Config, path: str | Path | None = None) -> str:
    """Return a configuration as TOML, and write it if a path is given."""
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
        Path(path).write_text(text, encoding="utf-8")
    return text


def build(config: Config, ledger: Ledger) -> Defences:
    """Make the rules of a configuration for one ledger."""
    sizes = {"d": ledger.d, "c": ledger.c}
    rules = tuple(_admission(i, entry, sizes) for i, entry in enumerate(config.admission))
    release: list[ReleaseRule] = []
    for i, entry in enumerate(config.release):
        make = find(entry.rule)
        release.append(make(**checked(f"release[{i}] ({entry.rule})", make, entry.options, sizes)))
    accountant = None
    if config.accountant is not None:
        chosen = _accountant(config.accountant.rule)
        accountant = chosen(**checked("accountant", chosen, config.accountant.options, sizes))
        if getattr(accountant, "action", None) == "coarsen" and any(isinstance(r, DeletionMask) for r in release):
            raise InputError(
                "accountant.action",
                "withhold or report beside a deletion_mask (coarsening shows true heads)",
                "coarsen",
            )
    return Defences(rules, Chain(release) if release else None, accountant)


def build_server(ledger: Ledger, config: Config | str | Path) -> Server:
    """Return a server with the defences of a configuration, or of the file that holds it."""
    return build(config if isinstance(config, Config) else load(config), ledger).server(ledger)


def _accountant(name: str) -> type[Accountant]:
    if name not in ACCOUNTANTS:
        raise unknown_name("accountant", name, ACCOUNTANTS)
    return ACCOUNTANTS[name]


def _admission(number: int, entry: Entry, sizes: Mapping[str, Any]) -> AdmissionRule:
    if entry.rule not in admission.REGISTRY:
        return admission.build(entry.rule, **entry.options)  # another package's, or the error that says so
    rule = admission.REGISTRY[entry.rule]
    return rule(**checked(f"admission[{number}] ({entry.rule})", rule, entry.options, sizes))
