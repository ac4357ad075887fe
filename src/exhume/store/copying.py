"""Backups: a store copied row by row, also between SQLite and PostgreSQL; and a store checked from end to end."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from exhume.errors import InputError, StoreError
from exhume.store import forget
from exhume.store.keys import OperatorKey
from exhume.store.locks import StoreLock
from exhume.store.opening import opened
from exhume.store.schema import META, METADATA, RECEIPTS, VERSION, engine_for, file_of, is_sqlite
from exhume.store.setup import ServerSetup

__all__ = ["Inspection", "backup", "inspect", "restore"]


def backup(url: str, file: str | Path) -> int:
    """Copy a store into a new SQLite file, also while a service runs on it; returns how many receipts it has.

    The copy is of one moment. It holds what had not left the disk by then, and it goes on holding it: a backup is to be
    replaced within the time in which deletions are promised to be gone from backups too.
    """
    path = Path(file)
    if path.exists():
        raise InputError("backup", "a name that is not taken", f"'{file}'")
    source = engine_for(url, create=False)
    try:
        return _copied(source, str(path))
    except BaseException:
        for leftover in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            leftover.unlink(missing_ok=True)
        raise
    finally:
        source.dispose()


def restore(file: str | Path, url: str) -> int:
    """Copy a backup into a store that is not there yet; returns how many receipts it has.

    What was deleted after the backup is in it again: the deletions since must be sent again. So are tokens that were
    revoked. It is a store of its own, with a new identity: heads since the backup had numbers that it gives again.
    """
    source = engine_for(str(file), create=False)
    target = None
    try:
        if is_sqlite(url):
            if file_of(url).exists():
                raise InputError("store", "one that is not there yet", f"'{file_of(url)}'")
        else:
            target = engine_for(url)
            if sa.inspect(target).has_table(META.name):
                raise InputError("store", "a database without a store", sa.make_url(url).render_as_string())
        return _copied(source, url, identity=secrets.token_hex(8))
    finally:
        source.dispose()
        if target is not None:
            target.dispose()


def _copied(source: sa.Engine, url: str, identity: str | None = None) -> int:
    try:
        there = sa.inspect(source).has_table(META.name)
    except sa.exc.DatabaseError as error:
        raise StoreError(f"what is to be copied cannot be read: {error.orig}") from None
    if not there:
        raise StoreError("there is no store to copy from")
    target = engine_for(url)
    try:
        lock = StoreLock(url, target)
        try:
            isolation = "REPEATABLE READ" if source.dialect.name == "postgresql" else None
            with source.connect() as reading, target.begin() as writing:
                if isolation is not None:
                    reading = reading.execution_options(isolation_level=isolation)
                else:
                    reading.exec_driver_sql("BEGIN")  # all tables as they are at one moment
                found = reading.execute(sa.select(META.c.value).where(META.c.name == "schema")).scalar()
                if found != str(VERSION):
                    raise InputError("version of the store", str(VERSION), found or "none")
                METADATA.create_all(writing)
                for table in METADATA.sorted_tables:
                    for row in reading.execution_options(yield_per=8).execute(sa.select(table)):
                        writing.execute(table.insert(), dict(row._mapping))
                if identity is not None:
                    writing.execute(META.update().where(META.c.name == "identity").values(value=identity))
                count = int(writing.execute(sa.select(sa.func.count()).select_from(RECEIPTS)).scalar_one())
            forget.checkpointed(target)
            return count
        finally:
            lock.close()
    finally:
        target.dispose()


@dataclass(frozen=True)
class Inspection:
    """What a check of a store found."""

    receipts: int
    accepted: int
    refused: int
    serial: int
    logged: int
    """Messages of the log that were done again."""
    pending: int
    """Deletions that have not left the disk."""
    identity: str
    seconds: float


def inspect(url: str, setup: ServerSetup, key: OperatorKey) -> Inspection:
    """Check a store that nobody runs: the database's own checks, the snapshot, the whole log done again, the head."""
    start = time.perf_counter()
    engine = engine_for(url, create=False)
    try:
        lock = StoreLock(url, engine)
        try:
            if engine.dialect.name == "sqlite":
                with engine.connect() as connection:
                    told = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
                if told != "ok":
                    raise StoreError(f"the database is damaged: {told}")
            if not sa.inspect(engine).has_table(META.name):
                raise StoreError("there is no store in this database")
            found = opened(engine, setup, key)
            with engine.connect() as connection:
                total = sa.select(sa.func.count()).select_from(RECEIPTS)
                receipts = int(connection.execute(total).scalar_one())
                accepted = int(connection.execute(total.where(RECEIPTS.c.accepted)).scalar_one())
        finally:
            lock.close()
    except sa.exc.SQLAlchemyError as error:
        raise StoreError(f"the store cannot be read: {getattr(error, 'orig', None) or error}") from error
    finally:
        engine.dispose()
    counts, head = found.server.counts, found.server.released
    if (counts.messages, counts.refused) != (accepted, receipts - accepted):
        raise StoreError(f"{receipts} receipts, {accepted} of them accepted, do not fit the server's counts ({counts})")
    serial = 0 if head is None or head.serial is None else head.serial
    seconds = time.perf_counter() - start
    return Inspection(
        receipts, accepted, receipts - accepted, serial, found.logged, found.pending, found.identity, seconds
    )
