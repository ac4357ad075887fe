"""What an audit is asked to do: one settings model behind the command line and the TOML file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from exhume.attack.probes import PROBES
from exhume.audit.configured import CONFIGURED
from exhume.audit.levels import as_level
from exhume.data import encoders, sets
from exhume.errors import InputError, unknown_name
from exhume.protocol.head import significant_bits

__all__ = ["DEFAULT_DIM", "DELETIONS", "RECOVERIES", "Settings", "from_toml", "make_settings"]

DELETIONS = ("sample", "class", "client")
RECOVERIES = ("difference", "rank_one")
BARE = ("float64",)
"""Heads of the bare server that an operator's settings are compared with: precision is a setting, too."""
DEFAULT_DIM = 128
"""Random features of the default audit: with the bundled digits, some client among five then has full feature rank."""


class Settings(BaseModel):
    """Everything that an audit needs to know; every name is also a command-line option and a TOML key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str = "digits"
    encoder: str = "random-relu"
    dim: int | None = Field(default=None, ge=1)
    features: Path | None = None
    labels: Path | None = None
    clients: int = Field(default=5, ge=2)
    alpha: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    gamma: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
    probe: tuple[str, ...] = ("designed", "own_data")
    delete: tuple[str, ...] = DELETIONS
    heads: tuple[str, ...] = ("float64", "float32")
    defence: str | None = None
    recovery: tuple[str, ...] = RECOVERIES
    trials: int = Field(default=100, ge=1)
    responses: int | None = Field(default=None, ge=1)
    scale: float = Field(default=1e4, gt=0, allow_inf_nan=False)
    seed: int = Field(default=0, ge=0)
    jobs: int = Field(default=0, ge=0)
    out: Path = Path("exhume-report")
    json_file: Path | None = None
    fail_on: str | None = None
    home: Path | None = None

    @field_validator("probe", "delete", "heads", "recovery", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Take a comma list as well as a list."""
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
            return parts
        names = [part.strip() for part in parts if part.strip()]
        if not names:
            raise ValueError("a list with at least one name")
        return tuple(dict.fromkeys(names))

    @field_validator("probe", "recovery")
    @classmethod
    def _underscores(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name.replace("-", "_") for name in value)

    @property
    def width(self) -> int | None:
        """The number of features to ask the encoder for; None leaves it to the encoder."""
        return DEFAULT_DIM if self.dim is None and self.encoder == "random-relu" else self.dim

    @property
    def columns(self) -> tuple[str, ...]:
        """The servers to attack, by their heads: the paper's, or the operator's beside the paper's."""
        return self.heads if self.defence is None else (CONFIGURED, *self.heads)

    def numbers(self) -> dict[str, Any]:
        """Return the settings that any number in the report depends on, apart from which cells are run."""
        names = {"data", "encoder", "clients", "alpha", "gamma", "recovery", "responses", "scale", "seed"}
        return self.model_dump(mode="json", include=names) | {"dim": self.width}


NAMES = tuple("json" if name == "json_file" else name.replace("_", "-") for name in Settings.model_fields)
"""The names of the options, as people write them."""


def make_settings(values: Mapping[str, Any]) -> Settings:
    """Check and return settings; anything wrong is an `InputError` that names the option."""
    known = {}
    for key, value in values.items():
        name = key.replace("_", "-")
        if name not in NAMES:
            raise unknown_name("option", key, NAMES)
        known["json_file" if name == "json" else name.replace("-", "_")] = value
    if known.get("defence") is not None:
        if "heads" in known:
            raise InputError("heads", "left out with a defence, whose configuration decides them", known["heads"])
        known["heads"] = BARE
    if known.get("data") == sets.OWN:
        known.setdefault("encoder", "none")
    try:
        settings = Settings(**known)
    except ValidationError as error:
        first = error.errors()[0]
        where = str(first["loc"][0]) if first["loc"] else "settings"
        allowed = re.sub(r"^(Input|Value error,) (should|must)? ?(be )?", "", str(first["msg"]))
        allowed = allowed.removeprefix("Value error, ")
        raise InputError("json" if where == "json_file" else where.replace("_", "-"), allowed, first["input"]) from None
    _check_names(settings)
    return settings


def from_toml(path: Path) -> dict[str, Any]:
    """Read settings from a TOML file. Strict: an unknown key is an error that suggests the nearest known one."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("config", "a TOML file that can be read", f"'{path}' ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("config", "a valid TOML file", f"'{path}': {error}") from None
    for key in content:
        if key.replace("_", "-") not in NAMES:
            raise unknown_name(f"key in {path.name}", key, NAMES)
    return content


def _check_names(settings: Settings) -> None:
    plugged = [point.name for point in entry_points(group="exhume.probes")]
    known: list[tuple[str, tuple[str, ...], list[str]]] = [
        ("data", (settings.data,), [*sets.REGISTRY, sets.OWN]),
        ("encoder", (settings.encoder,), list(encoders.REGISTRY)),
        ("probe", settings.probe, [*PROBES, *plugged]),
        ("delete", settings.delete, list(DELETIONS)),
        ("recovery", settings.recovery, list(RECOVERIES)),
    ]
    for field, got, names in known:
        for name in got:
            if name not in names:
                raise unknown_name(field, name, names)
    for precision in settings.heads:
        try:
            significant_bits(precision)
        except InputError as error:
            raise InputError("heads", error.allowed, error.got) from None
    if settings.fail_on is not None:
        as_level(settings.fail_on)
    if settings.recovery == ("rank_one",) and "sample" not in settings.delete:
        raise InputError("recovery", "difference where no single record is deleted", "rank_one")
    if settings.data == sets.OWN and settings.features is None:
        raise InputError("features", f"the file to read when data is '{sets.OWN}'", "nothing")
