"""Forgetting on the disk: how long a deleted block may still be found in a file, and how it is made to leave.

A snapshot of the present takes the place of the old one and of the whole log, in one transaction. SQLite overwrites
what is freed (`secure_delete`), ends the file before it (`auto_vacuum`), and its write-ahead log is then truncated to
nothing. Only after that is a deletion said to have left.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import sqlalchemy as sa

from exhume.errors import InputError
from exhume.store.schema import BUSY_TIMEOUT, RECEIPTS

__all__ = ["Forgetting", "checkpointed", "erased", "pending"]


@dataclass(frozen=True)
class Forgetting:
    """When a snapshot is due.

    Parameters
    ----------
    seconds
        After a deletion is acknowledged, how long until what it deleted has left every file.
    updates
        Accepted messages in the log, at most.
    megabytes
        Size of the log, at most.
    """

    seconds: float = 30.0
    updates: int = 512
    megabytes: float = 256.0

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 86_400:
            raise InputError("forget.seconds", "above 0 and at most 86400", self.seconds)
        if not 1 <= self.updates <= 1_000_000:
            raise InputError("forget.updates", "from 1 to 1000000", self.updates)
        if not 1 <= self.megabytes <= 65_536:
            raise InputError("forget.megabytes", "from 1 to 65536", self.megabytes)

    @property
    def wait(self) -> float:
        """How long a deletion waits for its snapshot; the rest of `seconds` is for taking it."""
        return 0.5 * self.seconds


def pending(connection: sa.Connection) -> int:
    """Return how many deletions have been acknowledged and not yet left the store."""
    wanted = sa.select(sa.func.count()).where(RECEIPTS.c.deletes, RECEIPTS.c.erased_at.is_(None))
    return int(connection.execute(wanted).scalar_one())


def checkpointed(engine: sa.Engine, patience: float = 0.25) -> bool:
    """Write SQLite's log into its file and truncate it to nothing; False where a reader holds it for too long.

    Readers of ours are done within milliseconds. Somebody else's, a shell or a copy that hangs, may stay for hours, and
    whoever sends must not wait for it.
    """
    if engine.dialect.name != "sqlite":
        return True
    with engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(1e3 * patience)}")
        try:
            busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]
        finally:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_TIMEOUT}")
    return not busy


def erased(connection: sa.Connection, upto: int, now: float | None = None) -> int:
    """Note that deletions up to a receipt's number have left the store; returns how many."""
    gone = sa.and_(RECEIPTS.c.seq <= upto, RECEIPTS.c.deletes, RECEIPTS.c.erased_at.is_(None))
    at = time.time() if now is None else now
    return int(connection.execute(RECEIPTS.update().where(gone).values(erased_at=at)).rowcount)
