"""The service as one TOML file: ledger, defence, store, addresses, limits."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from exhume.data.own import read_own
from exhume.defence.bounds import Bounds
from exhume.defence.config import Config
from exhume.defence.config import load as load_defence
from exhume.defence.default import hardened_config, public_totals
from exhume.defence.release import ContinualNoise
from exhume.errors import ExhumeError, InputError, unknown_name
from exhume.options import first_error
from exhume.protocol.grid import snap
from exhume.protocol.summary import Summary
from exhume.service.auth import Tokens
from exhume.service.core import Limits
from exhume.service.rounds import Gathering
from exhume.store import Forgetting, ServerSetup

__all__ = ["UNDEFENDED", "Address", "ServiceConfig", "first_operator", "load", "template"]

UNDEFENDED = "every client can recover what others delete"
"""What a configuration must say in so many words to run a server without defences."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class LedgerTable(_Table):
    """Size and mode of the ledger."""

    d: int = Field(ge=1, le=100_000)
    c: int = Field(ge=1, le=100_000)
    gamma: float = Field(default=1e-3, gt=0)
    grid: float | None = None


class DefenceTable(_Table):
    """A file of rules, or bounds for the default ones, or in plain words none."""

    file: str | None = None
    undefended: str | None = None
    longest: float | None = None
    message_rows: int | None = None
    client_rows: int | None = None
    rows: int | None = None
    show_rows: bool = True
    founding: int | None = None
    public: str | None = None
    """A file of rows that need no protection, for the noise's first measure; else the founding messages are that."""


class StoreTable(_Table):
    """Where the store and the operator's key are."""

    url: str = "store.db"
    key_file: str = "service.key"


class Address(_Table):
    """Where the service listens; with both TLS files it speaks TLS."""

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    certificate: str | None = None
    private_key: str | None = None


class OperatorAddress(Address):
    """Where the operator's API listens, and the token that is taken while there is no operator yet."""

    port: int = Field(default=8001, ge=0, le=65535)
    first_token: str | None = None


class ServiceConfig(_Table):
    """The whole configuration. Names of files are relative to the file that they are in."""

    version: int = Field(default=1, ge=1, le=1)
    ledger: LedgerTable
    defence: DefenceTable = Field(default_factory=DefenceTable)
    store: StoreTable = Field(default_factory=StoreTable)
    forget: dict[str, float] = Field(default_factory=dict)
    round: dict[str, float] = Field(default_factory=dict)
    limits: dict[str, float] = Field(default_factory=dict)
    listen: Address = Field(default_factory=Address)
    operator: OperatorAddress = Field(default_factory=OperatorAddress)
    folder: Path = Field(default=Path(), exclude=True)

    def path(self, name: str) -> Path:
        """Return a file that the configuration names."""
        return self.folder / name

    @property
    def url(self) -> str:
        """The address of the store."""
        return self.store.url if "://" in self.store.url else str(self.path(self.store.url))

    @property
    def defences(self) -> Config:
        """The rules: those of the file, else the default ones, else none where that is said in plain words."""
        table = self.defence
        if table.undefended is not None:
            if table.undefended != UNDEFENDED:
                raise InputError("defence.undefended", f'"{UNDEFENDED}", word for word', f'"{table.undefended}"')
            return Config()
        if table.file is not None:
            return load_defence(self.path(table.file))
        if table.longest is None or table.client_rows is None:
            raise InputError(
                "defence",
                "a file of rules, or the bounds longest and client_rows for the default rules "
                "(exhume.defence.Bounds.measure takes them from rows of your own)",
                "neither",
            )
        # With public rows 1, as it always was: a store asks for the configuration that it was made with.
        founding = table.founding if table.founding is not None else int(table.public is not None)
        bounds = Bounds(table.longest, table.message_rows or table.client_rows, table.client_rows)
        return hardened_config(
            self.ledger.d,
            bounds=bounds,
            rows=table.rows,
            show_rows=table.show_rows,
            founding=founding,
            grows=None if table.public is None else False,
        )

    @property
    def public(self) -> Summary | None:
        """Totals of the public rows, as large as the ledger will be; None where no file is named.

        Raises
        ------
        InputError
            If the file's rows do not fit the ledger and its bounds, or no rule uses them.
        """
        table, ledger = self.defence, self.ledger
        if table.public is None:
            return None
        if not any(entry.rule == ContinualNoise.name for entry in self.defences.release):
            raise InputError("defence.public", "left out where no rule continual-noise uses it", f"'{table.public}'")
        try:
            features, labels, _, _ = read_own(self.path(table.public))
        except ExhumeError as error:
            raise InputError("defence.public", "a file of features and labels", str(error)) from None
        if features.shape[1] != ledger.d or labels.max() >= ledger.c:
            got = f"{features.shape[1]} features, classes up to {labels.max()}"
            raise InputError("defence.public", f"rows of {ledger.d} features and classes below {ledger.c}", got)
        longest = float(np.linalg.norm(features, axis=1).max())
        if table.longest is not None and longest > table.longest:
            raise InputError("defence.public", f"rows at most {table.longest:g} long, the bound 'longest'", longest)
        return public_totals((snap(features, ledger.grid), labels), ledger.c, table.rows)

    @property
    def setup(self) -> ServerSetup:
        """What the store is of."""
        ledger = self.ledger
        return ServerSetup(ledger.d, ledger.c, ledger.gamma, ledger.grid, self.defences, self.public)

    @property
    def bounds_of(self) -> tuple[Forgetting, Gathering, Limits]:
        """How long, in which rounds, how much."""
        rows = {"rows": self.defence.message_rows or self.defence.client_rows or 1000}
        return (
            _made("forget", Forgetting, self.forget),
            _made("round", Gathering, self.round),
            _made("limits", Limits, rows | self.limits),
        )


_MAY_BE_ZERO = (("round", "seconds"), ("limits", "pace"))


def _made(name: str, kind: Any, given: dict[str, float]) -> Any:
    """Make one of our bounds of a table; whole numbers where it has whole numbers."""
    known = kind.__dataclass_fields__
    for option in given:
        if option not in known:
            raise unknown_name(f"option of {name}", option, known)
    values = {}
    for option, value in given.items():
        whole = isinstance(known[option].default, int)
        if not math.isfinite(value):
            raise InputError(f"{name}.{option}", "a finite number", value)
        if value < 0 and (name, option) in _MAY_BE_ZERO:
            raise InputError(f"{name}.{option}", "0 or above", value)
        if value <= 0 and (name, option) not in _MAY_BE_ZERO:
            raise InputError(f"{name}.{option}", "above 0", value)
        if whole and int(value) != value:
            raise InputError(f"{name}.{option}", "a whole number", value)
        values[option] = int(value) if whole else float(value)
    return kind(**values)


def first_operator(config: ServiceConfig, tokens: Tokens) -> None:
    """Take the configuration's first token if there is no operator yet."""
    name = config.operator.first_token
    if name is None or tokens.active("operator"):
        return
    try:
        token = config.path(name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("operator.first_token", "a file that can be read", f"'{name}' ({error})") from None
    tokens.adopt(token, "operator", "operator")


def load(path: str | Path) -> ServiceConfig:
    """Read a configuration; an unknown name is an error that suggests the nearest known one."""
    file = Path(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("configuration", "a TOML file that can be read", f"'{path}' ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("configuration", "a valid TOML file", f"'{path}': {error}") from None
    _check_names(content)
    try:
        made = ServiceConfig.model_validate(content | {"folder": file.parent})
    except ValidationError as error:
        raise first_error(error) from None
    tls = [(made.listen, "listen"), (made.operator, "operator")]
    for address, name in tls:
        if (address.certificate is None) != (address.private_key is None):
            raise InputError(name, "both certificate and private_key, or neither", "one of the two")
    return made


def _check_names(content: dict[str, Any]) -> None:
    known = [name for name in ServiceConfig.model_fields if name != "folder"]
    tables: dict[str, type[BaseModel]] = {"ledger": LedgerTable, "defence": DefenceTable, "store": StoreTable}
    tables |= {"listen": Address, "operator": OperatorAddress}
    for key, value in content.items():
        if key not in known:
            raise unknown_name("key", key, known)
        if key in tables and isinstance(value, dict):
            for name in value:
                if name not in tables[key].model_fields:
                    raise unknown_name(f"key of {key}", name, tables[key].model_fields)


def template(d: int, c: int, grid: float | None) -> str:
    """Return a commented configuration."""
    mode = f"grid = {grid!r}" if grid is not None else "# grid = 0.0009765625"
    return f"""\
# An Exhume service. Names of files are relative to this file. Start it: exhume serve --config service.toml
version = 1

[ledger]
d = {d}            # feature dimensions
c = {c}             # classes
gamma = 0.001      # ridge coefficient
{mode}  # a power of two: bit-exact mode, clients round their features to multiples of it

# Without a file of rules the defences are those of exhume.hardened, which need public bounds. Measure them on rows of
# your own: exhume.defence.Bounds.measure(features, client_rows=...).
[defence]
longest = 10.0       # largest Euclidean length of a feature vector
message_rows = 100   # most rows of one message
client_rows = 1000   # most rows that one client may have standing
rows = 10000         # about how many rows the ledger will hold
# The founding submissions shape the noise: let them come from clients that you trust, with as many rows as
# features at least. Who comes first with rows of next to no length ruins the noise for everybody.
founding = 1         # submissions before the first head
# Better, rows of your own that need no protection (.npz, .csv, ...: features and labels, from the clients' encoder):
# they make the noise's shape one that holds nobody's record and that nobody can ruin, and cover the first clients'
# additions too. A store keeps a digest of them: another file needs a new store.
# public = "public.npz"
# file = "defence.toml"
# undefended = "{UNDEFENDED}"

[store]
url = "store.db"           # or postgresql://user@host/database
key_file = "service.key"   # keep it on another disk than the store, and back it up apart from it

[forget]
seconds = 30       # within this time what was deleted has left every file of the store
updates = 512      # messages in the log, at most: what a restart has to do again
megabytes = 256    # size of the log, at most

# Gather the messages of several clients to one submission and one broadcast:
# [round]
# seconds = 5
# clients = 10

[limits]
queue = 256         # messages that wait for the writer; more are told to come back (429)
per_minute = 6000   # messages of one client in a minute
body_seconds = 30   # how long a message may take to arrive
# Answers to messages leave at whole multiples of this time, so that it tells nothing of others. Choose twice what an
# update takes at your size. Clients that send one message after another wait for it; 0 answers at once.
pace = 0.02

[listen]
host = "127.0.0.1"
port = 8000
# certificate = "cert.pem"
# private_key = "key.pem"

# The operator's address: keep it away from clients.
[operator]
host = "127.0.0.1"
port = 8001
first_token = "operator.token"   # taken while there is no operator yet; remove the file once you have it
"""
