"""One process for one store: the second is refused while the first lives, and nobody has to clean up after a kill."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import sqlalchemy as sa

from exhume.errors import StoreError
from exhume.files import PRIVATE
from exhume.store.schema import file_of, is_sqlite

if sys.platform != "win32":
    import fcntl

__all__ = ["StoreLock"]

_ADVISORY = 0x6578_6875_6D65
"""The number of the lock in a PostgreSQL database: one store for each database."""


class StoreLock:
    """Holds a store until it is closed or the process ends.

    A file lock beside an SQLite file, and on Linux one on the file itself, which is the same under any name and link;
    an advisory lock of one connection in PostgreSQL. The system lets go of them when their holder dies.
    """

    def __init__(self, url: str, engine: sa.Engine) -> None:
        self._handles: list[int] = []
        self._engine = None if is_sqlite(url) else engine
        self._connection: sa.Connection | None = None
        if is_sqlite(url):
            self._hold_file(url)
        else:
            self._hold_database(engine)

    def _hold_file(self, url: str) -> None:
        path = file_of(url)
        if sys.platform == "win32":  # pragma: no cover
            return
        places = [path.with_name(f"{path.name}.lock")]
        if sys.platform == "linux":  # elsewhere this kind of lock meets those that SQLite itself takes
            places.append(path)
        try:
            for place in places:
                self._handles.append(os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE))
                fcntl.flock(self._handles[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise StoreError(f"the store '{path}' is in use by another process") from None
        except OSError as error:
            self.close()
            raise StoreError(f"the store '{path}' cannot be written: {error.strerror}") from None

    def _hold_database(self, engine: sa.Engine) -> None:
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(_ADVISORY))):
            connection.close()
            raise StoreError("the store is in use by another process")
        self._connection = connection

    def check(self) -> None:
        """Make sure that the lock is still ours: a database server that was restarted has let go of it.

        Raises
        ------
        StoreError
            If it was not. It is held again then, unless somebody else has it, and the store must be read again: others
            may have written to it meanwhile.
        """
        if self._engine is None:
            return
        try:
            if self._connection is not None:
                self._connection.execute(sa.select(1))
                return
        except sa.exc.SQLAlchemyError:
            self._let_go()
        try:
            self._hold_database(self._engine)
        except sa.exc.SQLAlchemyError as error:
            raise StoreError(f"the database does not answer: {getattr(error, 'orig', None) or error}") from error
        raise StoreError("the connection to the database was lost; the store is held again, and read again")

    def _let_go(self) -> None:
        if self._connection is not None:
            with suppress(sa.exc.SQLAlchemyError):
                self._connection.invalidate()
            with suppress(sa.exc.SQLAlchemyError):
                self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Let go."""
        while self._handles:
            os.close(self._handles.pop())
        if self._connection is not None:
            with suppress(sa.exc.SQLAlchemyError):
                self._connection.scalar(sa.select(sa.func.pg_advisory_unlock(_ADVISORY)))
                self._connection.close()
            self._connection = None
