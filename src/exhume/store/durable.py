"""The durable server: what it has acknowledged is on the disk, and what was deleted leaves the disk."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from exhume.errors import ConflictError, RefusedError, StoreError
from exhume.protocol.head import Head
from exhume.protocol.rules import Counts
from exhume.protocol.server import Server
from exhume.protocol.summary import Update
from exhume.protocol.wire import encode_head, encode_update
from exhume.store import forget, journal, snapshot
from exhume.store.forget import Forgetting
from exhume.store.journal import Sent
from exhume.store.keys import OperatorKey
from exhume.store.locks import StoreLock
from exhume.store.opening import opened
from exhume.store.receipts import SCOPES, StoredReceipt, as_key, statement
from exhume.store.schema import HEAD, LOG, META, engine_for
from exhume.store.setup import ServerSetup

__all__ = ["Answer", "DurableServer", "Published"]

_LOG = logging.getLogger("exhume.store")

_HELD = (
    "another process reads the store's file (a backup that hangs, a shell with an open transaction), and what was "
    "deleted stays in the write-ahead log until it ends"
)

Answer = StoredReceipt | Exception
"""What a message gets: its receipt, a `ConflictError`, or what went wrong with it alone."""


@dataclass(frozen=True, eq=False)
class Published:
    """What is public, all of one moment: read it without waiting for anybody."""

    head: Head | None
    encoded: bytes | None
    """The head as the wire has it."""
    counts: Counts
    at: float
    """When the head was broadcast."""

    @property
    def serial(self) -> int:
        """The number of the head; 0 where none has been released."""
        return 0 if self.head is None or self.head.serial is None else self.head.serial


class DurableServer:
    """A server whose every answer is on the disk before it is given.

    One process holds a store. One thread at a time writes; `published` is read without waiting. A message has a key of
    its client's choosing: the same key and message get the same receipt for ever, another message under the same key is
    a `ConflictError`.

    Parameters
    ----------
    url
        ``sqlite:///FILE``, a file name, or ``postgresql://...``.
    setup
        What the server is. A store of another configuration is refused by name.
    key
        The operator's key.
    forgetting
        When what was deleted leaves the disk.
    watch
        Whether a thread of its own keeps the bound of `Forgetting.seconds` while nobody sends anything.
    """

    def __init__(
        self,
        url: str,
        setup: ServerSetup,
        key: OperatorKey,
        *,
        forgetting: Forgetting | None = None,
        watch: bool = True,
    ) -> None:
        self.setup, self.forgetting, self._key = setup, forgetting or Forgetting(), key
        self._mutex = threading.RLock()
        self._engine = engine_for(url)
        self._closed = threading.Event()
        self._published = Published(None, None, Counts(), 0.0)
        self._encoded: bytes | None = None
        self._held, self._watched, self._stale = False, watch, False
        self.trouble: str | None = None
        """What keeps deletions from leaving the disk; None where nothing does."""
        try:
            self._lock = StoreLock(url, self._engine)
        except BaseException:
            self._engine.dispose()
            raise
        try:
            with _told(url):
                self._take_up()
                if self._pending:
                    self.snapshot()
        except BaseException:
            self._lock.close()
            self._engine.dispose()
            raise
        self._watcher = threading.Thread(target=self._watch, name="exhume-forget", daemon=True)
        if watch:
            self._watcher.start()

    def _take_up(self) -> None:
        """Read the store: the snapshot, and everything since."""
        found = opened(self._engine, self.setup, self._key)
        self._server, self._clock, self.identity = found.server, found.clock, found.identity
        self._seq, self._round, self._upto = found.seq, found.round, found.upto
        self._logged, self._bytes, self._pending = found.logged, found.size, found.pending
        self._since = time.monotonic()
        self._publish(found.encoded)

    @property
    def engine(self) -> sa.Engine:
        """The database, for whoever keeps tables of its own in it."""
        return self._engine

    @property
    def server(self) -> Server:
        """The server as it is now: another object after every snapshot."""
        return self._server

    @property
    def published(self) -> Published:
        """The latest head and counts that are on the disk."""
        return self._published

    @property
    def pending(self) -> int:
        """Deletions that were acknowledged and have not left the disk yet."""
        return self._pending

    @property
    def waited(self) -> float:
        """Seconds since the oldest of them was acknowledged."""
        return time.monotonic() - self._since if self._pending else 0.0

    @property
    def last(self) -> int:
        """The number of the last receipt."""
        return self._seq

    @property
    def public_key(self) -> str:
        """What signatures of this store are checked with."""
        return self._key.public

    @property
    def shape(self) -> tuple[int, int]:
        """Feature dimensions and classes."""
        return self.setup.d, self.setup.c

    @property
    def grid(self) -> float | None:
        """The grid step of a bit-exact ledger."""
        return self.setup.grid

    def head(self) -> Head:
        """Return the head last broadcast."""
        found = self._published.head
        if found is None:
            raise RefusedError("no head has been released yet")
        return found

    def submit(self, update: Update, client: str, key: str) -> StoredReceipt:
        """Take one message under its client's key; returns when the answer is on the disk."""
        return self.submit_round([(client, key, update)])[0]

    def submit_round(self, messages: Sequence[tuple[str, str, Update]]) -> list[StoredReceipt]:
        """Take the messages of several clients as one logical submission with one broadcast."""
        sent = [Sent(client, as_key(key), encode_update(update), update.sent()) for client, key, update in messages]
        answers = self.commit([sent])[0]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return [answer for answer in answers if isinstance(answer, StoredReceipt)]

    def commit(self, rounds: Sequence[Sequence[Sent]]) -> list[list[Answer]]:
        """Take rounds in order, all in one transaction; nothing is acknowledged or shown before it is on the disk.

        If the store cannot be written nothing of it counts: the server is read from the disk again, and the error is a
        `StoreError`.
        """
        with self._mutex:
            if self._closed.is_set():
                raise StoreError("the store is closed")
            self._make_sure()
            digests = [[self._key.digest(one.client, one.key, one.body) for one in round_] for round_ in rounds]
            before = self._published.serial
            try:
                answers = self._write(rounds, digests)
            except BaseException as error:
                self._recover()
                if isinstance(error, sa.exc.SQLAlchemyError | OSError):
                    raise StoreError(
                        f"the store cannot be written: {_cause(error)}; nothing of it was taken"
                    ) from error
                raise
            self._publish(self._encoded, before)
            self._keep_bounds(retry=not self._watched)
            return answers

    def _write(self, rounds: Sequence[Sequence[Sent]], digests: list[list[bytes]]) -> list[list[Answer]]:
        receipts: list[StoredReceipt] = []
        bodies: dict[int, bytes] = {}
        answers: list[list[Answer]] = []
        self._encoded = self._published.encoded
        with self._engine.begin() as connection:
            known = journal.found_many(connection, [one for round_ in rounds for one in round_])
            for round_, made in zip(rounds, digests, strict=True):
                answers.append(self._take_round(round_, made, known, receipts, bodies))
            journal.write(connection, receipts, bodies)
            head = self._server.released
            if head is not None and head.serial != self._published.serial:
                self._encoded = encode_head(head)
                _put_head(connection, self._encoded)
        self._logged += len(bodies)
        self._bytes += sum(map(len, bodies.values()))
        deleted = sum(receipt.deletes for receipt in receipts)
        if deleted and not self._pending:
            self._since = time.monotonic()
        self._pending += deleted
        return answers

    def _take_round(
        self,
        round_: Sequence[Sent],
        digests: Sequence[bytes],
        known: dict[tuple[str, str], StoredReceipt],
        receipts: list[StoredReceipt],
        bodies: dict[int, bytes],
    ) -> list[Answer]:
        """Answer one round: what was answered before, then what is new, as one submission."""
        fresh = [
            (one, digest) for one, digest in zip(round_, digests, strict=True) if (one.client, one.key) not in known
        ]
        failed: Exception | None = None
        if fresh:
            at, seq = self._clock.advance(), self._seq
            try:
                made = self._server.submit_round([(one.client, one.update) for one, _ in fresh])
            except Exception as error:  # of a rule, or the round's own: the server has taken it back whole
                made, failed = [], error
            self._round += bool(made)
            for (one, digest), receipt in zip(fresh, made, strict=bool(made)):
                seq += 1
                serial = None if receipt.head is None else receipt.head.serial
                deletes = receipt.accepted and not one.update.delete.is_zero
                kept = StoredReceipt(
                    seq, self._round, one.client, one.key, digest, receipt.accepted, receipt.number, serial,
                    receipt.rule, receipt.reason, at, deletes,
                )  # fmt: skip
                receipts.append(kept)
                known[one.client, one.key] = kept
                if receipt.accepted:
                    bodies[seq] = one.body
            self._seq = seq
        return [self._answer(one, digest, known, failed) for one, digest in zip(round_, digests, strict=True)]

    @staticmethod
    def _answer(
        one: Sent, digest: bytes, known: dict[tuple[str, str], StoredReceipt], failed: Exception | None
    ) -> Answer:
        found = known.get((one.client, one.key))
        if found is None:
            return failed if failed is not None else StoreError("the message was not taken")
        return found if found.digest == digest else ConflictError(one.client, one.key)

    def try_writing(self) -> None:
        """Write next to nothing, to find out whether the store can be written again; a `StoreError` where it cannot."""
        with self._mutex:
            self._make_sure()
            try:
                with self._engine.begin() as connection:
                    _put(connection, "tried", str(self._clock.now))
            except (sa.exc.SQLAlchemyError, OSError) as error:
                raise StoreError(f"the store cannot be written: {_cause(error)}") from error

    def receipt(self, client: str, key: str) -> StoredReceipt | None:
        """Return what a client was answered under a key, or None."""
        with self._engine.connect() as connection:
            return journal.find(connection, client, key)

    def statement(self, receipt: StoredReceipt) -> dict[str, Any] | None:
        """Return the signed statement of a deletion; None where nothing was deleted."""
        if not receipt.deletes:
            return None
        scope = SCOPES[self._engine.dialect.name]
        seconds = self.forgetting.seconds
        return statement(receipt, self._key, store=self.identity, scope=scope, forget_seconds=seconds)

    def snapshot(self) -> None:
        """Put the present in the place of the old snapshot and of the log; what was deleted has left the disk then.

        The server goes on from what was written, as one that is started again would.
        """
        with self._mutex:
            self._make_sure()
            parts = snapshot.taken(self._server, self._clock, self._key)
            server = snapshot.rebuilt(parts, self.setup, self._clock, self._key)
            with self._engine.begin() as connection:
                snapshot.write(connection, parts)
                snapshot.emptied(connection, LOG)
                _put(connection, "upto", str(self._seq))
            self._server, self._upto, self._logged, self._bytes = server, self._seq, 0, 0
            self._sweep()

    def _make_sure(self) -> None:
        """Write only to a store that is ours and read to its end."""
        if self._stale:
            self._recover()
        try:
            self._lock.check()
        except StoreError:
            self._recover()
            raise

    def _sweep(self) -> bool:
        """Truncate the write-ahead log: only then has what the snapshot left out left the disk."""
        self._held = not forget.checkpointed(self._engine)
        if not self._held:
            self._note_erased()
        self._say(_HELD if self._held else None)
        return not self._held

    def _say(self, trouble: str | None) -> None:
        """Note what keeps deletions from leaving the disk, with a line in the log when that changes."""
        if trouble is not None and trouble != self.trouble:
            _LOG.warning("deletions do not leave the disk: %s", trouble)
        elif trouble is None and self.trouble is not None:
            _LOG.warning("deletions leave the disk again")
        self.trouble = trouble

    def _note_erased(self) -> None:
        if self._pending:
            with self._engine.begin() as connection:
                forget.erased(connection, self._upto, self._clock.advance())
                self._pending = forget.pending(connection)
        self._since = time.monotonic()

    def _keep_bounds(self, *, retry: bool) -> None:
        """Take a snapshot where one is due; a failure of it takes nothing back of what was acknowledged.

        While somebody else reads the file, another snapshot would only make it longer: the log is tried again, by the
        thread that watches.
        """
        bounds = self.forgetting
        late = self._pending > 0 and time.monotonic() - self._since >= bounds.wait
        full = self._logged >= bounds.updates or self._bytes >= bounds.megabytes * 2**20
        try:
            if self._held and retry and self._sweep():
                late = self._pending > 0  # deletions since that snapshot have waited as long
            if full or (late and not self._held):
                self.snapshot()
        except (sa.exc.SQLAlchemyError, StoreError, OSError) as error:
            self._say(f"no snapshot could be taken: {_cause(error)}")

    def _watch(self) -> None:
        while not self._closed.wait(min(1.0, self.forgetting.wait / 4)):
            if self._held or (self._pending and time.monotonic() - self._since >= self.forgetting.wait):
                with self._mutex:
                    if not self._closed.is_set():
                        self._keep_bounds(retry=True)

    def _recover(self) -> None:
        """Go back to what is on the disk, after a step that did not get there; nothing is taken until that works."""
        self._stale = True
        try:
            self._take_up()
        except Exception as error:
            raise StoreError(
                f"the store cannot be read again: {_cause(error)}; nothing is taken until it can"
            ) from error
        self._stale = False

    def _publish(self, encoded: bytes | None, before: int | None = None) -> None:
        head = self._server.released
        changed = before is None or head is None or head.serial != before
        at = self._clock.now if changed else self._published.at
        self._published = Published(head, encoded, self._server.counts, at)

    @contextmanager
    def paused(self) -> Iterator[Server]:
        """Hold writers off while the block reads the server."""
        with self._mutex:
            yield self._server

    def close(self) -> None:
        """Take a last snapshot and let go of the store; what was deleted has left the disk then."""
        with self._mutex:
            if self._closed.is_set():
                return
            try:
                if self._logged or self._pending:
                    self.snapshot()
            finally:
                self._closed.set()
                self._lock.close()
                self._engine.dispose()
        if self._watcher.is_alive() and self._watcher is not threading.current_thread():
            self._watcher.join(timeout=5.0)

    def __enter__(self) -> DurableServer:
        return self

    def __exit__(self, *rest: object) -> None:
        self.close()


def _put(connection: sa.Connection, name: str, value: str) -> None:
    done = connection.execute(META.update().where(META.c.name == name).values(value=value))
    if not done.rowcount:
        connection.execute(META.insert(), {"name": name, "value": value})


def _put_head(connection: sa.Connection, body: bytes) -> None:
    if not connection.execute(HEAD.update().where(HEAD.c.place == 1).values(body=body)).rowcount:
        connection.execute(HEAD.insert(), {"place": 1, "body": body})


def _cause(error: BaseException) -> str:
    return str(getattr(error, "orig", None) or error)


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Turn what a database complains of into an error of ours."""
    try:
        yield
    except (sa.exc.SQLAlchemyError, OSError) as error:
        shown = sa.make_url(url).render_as_string() if "://" in url else url
        raise StoreError(f"the store '{shown}' cannot be opened: {_cause(error)}") from error
