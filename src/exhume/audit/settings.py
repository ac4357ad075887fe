"""What an audit is asked to do: one settings model behind the command line, the TOML file and the Python entry."""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from exhume.attack import estimate, probes, recover
from exhume.audit.engines import ENGINES, IN_PROCESS
from exhume.audit.levels import LEVELS, as_level
from exhume.data import encoders, sets
from exhume.errors import InputError, OldNameWarning, unknown_name
from exhume.options import first_error
from exhume.protocol.head import significant_bits
from exhume.simulate import attackers
from exhume.simulate.lean import LEAN_FROM

__all__ = [
    "ASIDE",
    "BARE",
    "DEFAULT_DIM",
    "FIELDS",
    "GIVEN",
    "KINDS",
    "WORSE",
    "Settings",
    "check_live_probes",
    "from_toml",
    "make_settings",
]

KINDS = ("record", "class", "client")
"""What can be deleted."""

BARE = ("float64",)
"""Heads of the bare server that an operator's settings are compared with: precision is a setting, too."""

DEFAULT_DIM = 128
"""Random features of the default audit: with the bundled digits, some client among five then has full feature rank."""

LEAN: dict[str, Any] = {"probe": "ballast", "kind": "record", "recovery": "rank-one", "trials": 20, "jobs": 1}
"""What is not asked for otherwise from `LEAN_FROM` features on, where each identification takes minutes."""

GIVEN = "given"
"""Stands for a file of features where they were given in Python."""

WORSE = "worse"
"""What ``fail-on`` is where anything that got worse than in an earlier report counts."""

SHIPPED = ("hardened",)
"""Defences that need no file."""

FAIL_ON = (*LEVELS[1:], WORSE)
"""What ``fail-on`` can be."""

ASIDE = frozenset({"compare", "accept", "sarif", "junit", "markdown", "json_file", "fail_on", "remedy", "jobs"})
"""Settings that change no number."""

OLD = {"heads": "precision", "delete": "kind"}
"""Names of settings that an earlier version had."""

OLD_KINDS = {"sample": "record", "row": "record"}


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
    probe: tuple[str, ...] = ("designed", "own-data")
    kind: tuple[str, ...] = KINDS
    precision: tuple[str, ...] = ("float64", "float32")
    defence: str | None = None
    attack: tuple[str, ...] | None = None
    estimator: str = "direct"
    recovery: tuple[str, ...] = ("difference", "rank-one")
    trials: int = Field(default=100, ge=1)
    responses: int | None = Field(default=None, ge=1)
    scale: float = Field(default=1e4, gt=0, allow_inf_nan=False)
    seed: int = Field(default=0, ge=0, lt=2**63)
    engine: str = IN_PROCESS
    """What carries messages between clients and server."""
    jobs: int = Field(default=0, ge=0)
    out: Path = Path("exhume-report")
    json_file: str | None = None
    """Where the findings go as JSON as well; ``-`` is standard output."""
    fail_on: str | None = None
    home: Path | None = None
    compare: Path | None = None
    """An earlier report.json: what got worse is said."""
    accept: Path | None = None
    """Accepted risks, each with a reason and a day on which it expires."""
    sarif: Path | None = None
    junit: Path | None = None
    markdown: Path | None = None
    remedy: bool | None = None
    """Whether to measure the configuration that the audit proposes; None does where that is cheap."""

    @field_validator("probe", "kind", "precision", "recovery", "attack", mode="before")
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

    @field_validator(
        "features", "labels", "out", "json_file", "home", "defence", "compare", "accept", "sarif", "junit", "markdown",
        mode="before",
    )  # fmt: skip
    @classmethod
    def _named(cls, value: Any) -> Any:
        """Refuse a path without a name: it would mean this folder."""
        if isinstance(value, str) and (not value or "\0" in value):
            raise ValueError("the name of a file or folder")
        return value

    @field_validator("kind")
    @classmethod
    def _today(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(OLD_KINDS.get(name, name) for name in value))

    @property
    def width(self) -> int | None:
        """The number of features to ask the encoder for; None leaves it to the encoder."""
        return DEFAULT_DIM if self.dim is None and self.encoder == "random-relu" else self.dim

    @property
    def lean(self) -> bool:
        """Whether every recovery reads a single head of a server without rules: many features then need no copies."""
        return self.defence is None and all(recover.REGISTRY[name].needs == "head" for name in self.recovery)

    @property
    def attackers(self) -> tuple[str, ...]:
        """The adaptive attackers to play: those that were named, else all that want to read or put back."""
        if self.attack is not None:
            return self.attack
        return tuple(name for name, attacker in attackers.REGISTRY.items() if attacker.aim != "burn")

    def numbers(self) -> dict[str, Any]:
        """Return the settings that any number in the report depends on, apart from which cells are run."""
        names = {"data", "encoder", "clients", "alpha", "gamma", "estimator", "recovery", "responses", "scale", "seed"}
        names.add("engine")
        return self.model_dump(mode="json", include=names) | {"dim": self.width}


FIELDS = {"json" if name == "json_file" else name.replace("_", "-"): name for name in Settings.model_fields}

NAMES = tuple(FIELDS)
"""The names of the options, as people write them."""


def make_settings(values: Mapping[str, Any], *, live: bool = False) -> Settings:
    """Check and return settings; anything wrong is an `InputError` that names the option.

    Features of one's own are the data that is audited; for a live target they are rows to probe with.
    """
    known: dict[str, Any] = {}
    for key, value in values.items():
        name = _today(key, "option")
        known[FIELDS[name]] = value
    if known.get("defence") is not None:
        if "precision" in known:
            given = known["precision"]
            raise InputError("precision", "left out with a defence, whose configuration decides it", given)
        known["precision"] = BARE
    if known.get("features") is not None and not live:
        known.setdefault("data", sets.OWN)
    if known.get("data") == sets.OWN:
        known.setdefault("encoder", "none")
    if isinstance(dim := known.get("dim"), int) and dim >= LEAN_FROM and known.get("defence") is None and not live:
        for name, value in LEAN.items():
            known.setdefault(name, value)
    try:
        settings = Settings(**known)
    except ValidationError as error:
        found = first_error(error, hides=lambda name: False)  # no option of an audit is a secret, the seed neither
        names = {field: name for name, field in FIELDS.items()}
        where = found.field.split(".")[0]
        raise InputError(names.get(where, where), found.allowed, found.got) from None
    settings = _checked(settings)
    if live:
        check_live_probes(settings)
    return settings


def check_live_probes(settings: Settings) -> None:
    """Refuse probes that would ruin the head of a live server while they are used, wherever they stand in the list."""
    for name in settings.probe:
        if probes.REGISTRY[name].stands:
            raise InputError("probe", "ones that leave nothing standing between their messages, on a live target", name)


def from_toml(path: Path) -> dict[str, Any]:
    """Read settings from a TOML file. Strict: an unknown key is an error that suggests the nearest known one."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("config", "a TOML file that can be read", f"'{path}' ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("config", "a valid TOML file", f"'{path}': {error}") from None
    return {_today(key, f"key in {path.name}"): value for key, value in content.items()}


def _today(key: str, field: str) -> str:
    """Return a setting's present name, with a note where an old one came."""
    name = key.replace("_", "-")
    if name in OLD:
        warnings.warn(f"'{key}' is now called '{OLD[name]}'", OldNameWarning, stacklevel=3)
        return OLD[name]
    if name not in NAMES:
        raise unknown_name(field, key, NAMES)
    return name


def _checked(settings: Settings) -> Settings:
    """Return the settings with every name as its registry has it."""
    if settings.data not in (*sets.REGISTRY, sets.OWN):
        raise unknown_name("data", settings.data, [*sets.REGISTRY, sets.OWN])
    for kind in settings.kind:
        if kind not in KINDS:
            raise unknown_name("kind", kind, KINDS)
    for precision in settings.precision:
        try:
            significant_bits(precision)
        except InputError as error:
            raise InputError("precision", error.allowed, error.got) from None
    if settings.fail_on == WORSE:
        if settings.compare is None:
            raise InputError("fail-on", f"a level; '{WORSE}' only together with --compare", WORSE)
    elif settings.fail_on is not None:
        as_level(settings.fail_on)
    if settings.engine not in ENGINES:
        raise unknown_name("engine", settings.engine, ENGINES)
    if settings.data == sets.OWN and settings.features is None:
        raise InputError("features", f"the file to read when data is '{sets.OWN}'", "nothing")
    found = settings.model_copy(
        update={
            "encoder": encoders.REGISTRY.find(settings.encoder).name,
            "probe": _names(settings.probe, probes.REGISTRY, "probe"),
            "estimator": estimate.REGISTRY.find(settings.estimator).name,
            "recovery": _names(settings.recovery, recover.REGISTRY, "recovery"),
            "attack": None if settings.attack is None else _names(settings.attack, attackers.REGISTRY, "attack"),
        }
    )
    if not any(set(recover.REGISTRY[name].kinds) & set(found.kind) for name in found.recovery):
        raise InputError("recovery", f"one for the deletion of a {' or '.join(found.kind)}", ", ".join(found.recovery))
    return found


def _names(given: Sequence[str], registry: Any, field: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(registry.find(name, field).name for name in given))
