"""The tables of a store, and the database that they are in: SQLite, or PostgreSQL by the same statements.

What came from clients is in `LOG` and `SNAPSHOT` only, and these are emptied whole: no page of any other table ever
holds a number of a message.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from exhume.errors import InputError, MissingExtraError
from exhume.files import PRIVATE

try:
    import sqlalchemy as sa
except ImportError as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingExtraError("the durable store", "serve") from error

__all__ = [
    "CLIENTS",
    "HEAD",
    "LOG",
    "META",
    "METADATA",
    "RECEIPTS",
    "SNAPSHOT",
    "VERSION",
    "engine_for",
    "file_of",
    "is_sqlite",
]

VERSION = 1
"""The version of these tables; a store of another one is refused by name, or migrated where there is a way."""

METADATA = sa.MetaData()

META = sa.Table(
    "meta",
    METADATA,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
"""Version, identity, configuration, and up to which receipt the snapshot goes."""

CLIENTS = sa.Table(
    "clients",
    METADATA,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("name", sa.String(256), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("made_at", sa.Float(53), nullable=False),
    sa.Column("revoked_at", sa.Float(53)),
)
"""Digests of tokens, and whose they are."""

_WAITING = sa.text("deletes AND erased_at IS NULL")

RECEIPTS = sa.Table(
    "receipts",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("round", sa.BigInteger, nullable=False),
    sa.Column("client", sa.String(256), nullable=False),
    sa.Column("key", sa.String(200), nullable=False),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),
    sa.Column("accepted", sa.Boolean, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("serial", sa.BigInteger),
    sa.Column("rule", sa.String(128)),
    sa.Column("reason", sa.Text),
    sa.Column("at", sa.Float(53), nullable=False),
    sa.Column("deletes", sa.Boolean, nullable=False),
    sa.Column("erased_at", sa.Float(53)),
    sa.UniqueConstraint("client", "key", name="a_key_is_used_once"),
    sa.Index("receipts_to_erase", "seq", sqlite_where=_WAITING, postgresql_where=_WAITING),
)
"""What was answered to every message, for ever. No number of a message is in it."""

LOG = sa.Table(
    "log",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
"""Accepted messages since the snapshot, as they came."""

SNAPSHOT = sa.Table(
    "snapshot",
    METADATA,
    sa.Column("part", sa.String(32), primary_key=True),
    sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
"""The whole server at one moment, in pieces."""

HEAD = sa.Table(
    "head",
    METADATA,
    sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
"""The head last broadcast, which is public."""

BUSY_TIMEOUT = 5000
"""Milliseconds that a statement waits for a lock."""

_PRAGMAS = (
    "page_size = 8192",
    "auto_vacuum = FULL",  # an emptied table leaves no pages behind: the file ends before them
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "temp_store = MEMORY",
    # Nothing of the log reaches the main file before its checkpoint: a purge in between leaves it in no file at all.
    "wal_autocheckpoint = 0",
    f"busy_timeout = {BUSY_TIMEOUT}",
)


def is_sqlite(url: str) -> bool:
    """Say whether a store is a file of this machine's."""
    return sa.make_url(_as_url(url)).get_backend_name() == "sqlite"


def file_of(url: str) -> Path:
    """Return the file of an SQLite store."""
    return Path(str(sa.make_url(_as_url(url)).database))


def engine_for(url: str, *, create: bool = True) -> sa.Engine:
    """Return the database behind an address: ``sqlite:///FILE``, a plain file name, or ``postgresql://...``."""
    address = _as_url(url)
    made = sa.make_url(address)
    if made.get_backend_name() == "postgresql":
        try:
            return sa.create_engine(made.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
        except ImportError as error:
            raise MissingExtraError("a store on PostgreSQL", "postgresql") from error
    if made.get_backend_name() != "sqlite" or not made.database or made.database == ":memory:":
        raise InputError("store", "a file, sqlite:///FILE or postgresql://...", made.render_as_string())
    path = Path(made.database)
    if not path.exists():
        if not create:
            raise InputError("store", "a file that is there", f"'{path}'")
        if not path.parent.is_dir():
            raise InputError("store", "in a folder that is there", f"'{path}'")
        # SQLite gives its other files the mode of this one.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
    engine = sa.create_engine(made)
    sa.event.listen(engine, "connect", _prepare)
    return engine


def _prepare(connection: Any, _: Any) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _as_url(url: str) -> str:
    return url if "://" in url else f"sqlite:///{url}"
