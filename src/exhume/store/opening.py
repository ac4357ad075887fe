"""Opening a store: made if it is not there, refused by name if it is another's, and read up to its last answer."""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace

import sqlalchemy as sa

from exhume.errors import InputError, RefusedError, StoreError
from exhume.protocol.server import Server
from exhume.protocol.wire import decode_head, decode_update, encode_head
from exhume.store import forget, journal, snapshot
from exhume.store.keys import OperatorKey
from exhume.store.receipts import StoredReceipt
from exhume.store.schema import HEAD, META, METADATA, VERSION
from exhume.store.setup import ServerSetup, StepClock

__all__ = ["Opened", "opened"]


@dataclass
class Opened:
    """A store as it was found: the server, and where its counters are."""

    server: Server
    clock: StepClock
    identity: str
    seq: int
    round: int
    upto: int
    logged: int
    size: int
    pending: int
    encoded: bytes | None = None
    """The head last broadcast, in the bytes in which it went out."""


def opened(engine: sa.Engine, setup: ServerSetup, key: OperatorKey) -> Opened:
    """Read a store, or make a new one; the server is bitwise the one that gave the last answer."""
    if not sa.inspect(engine).has_table(META.name):
        _create(engine, setup, key)
    with engine.connect() as connection:
        meta = {row.name: row.value for row in connection.execute(sa.select(META))}
        _check(meta, setup, key)
        clock, upto = StepClock(), int(meta["upto"])
        server = snapshot.rebuilt(snapshot.read(connection), setup, clock, key)
        seq, round_, latest = journal.last(connection)
        found = Opened(server, clock, meta["identity"], seq, round_, upto, 0, 0, forget.pending(connection))
        for messages in journal.since(connection, upto):
            _again(found, messages)
        clock.now = max(clock.now, latest)
        found.encoded = _check_head(connection, server)
    return found


def _create(engine: sa.Engine, setup: ServerSetup, key: OperatorKey) -> None:
    """Make the tables and the first snapshot, in one transaction: a store is there whole or not at all."""
    clock = StepClock()
    clock.advance()
    server = setup.new_server(clock)
    with suppress(RefusedError):  # a rule may hold the first head back
        server.head()
    meta = {
        "schema": str(VERSION),
        "identity": secrets.token_hex(8),
        "setup": json.dumps(setup.fingerprint(), sort_keys=True),
        "public_key": key.public,
        "upto": "0",
    }
    with engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # or tables would be made one by one
        METADATA.create_all(connection)
        connection.execute(META.insert(), [{"name": name, "value": value} for name, value in meta.items()])
        snapshot.write(connection, snapshot.taken(server, clock, key))
        if server.released is not None:
            connection.execute(HEAD.insert(), {"place": 1, "body": encode_head(server.released)})
    forget.checkpointed(engine)


def _check(meta: dict[str, str], setup: ServerSetup, key: OperatorKey) -> None:
    if meta.get("schema") != str(VERSION):
        raise InputError("version of the store", str(VERSION), meta.get("schema", "none"))
    if meta.get("public_key") != key.public:
        raise InputError("key file", f"that of the store, with the public key {meta.get('public_key')}", key.public)
    setup.check(meta.get("setup", ""))


def _again(found: Opened, messages: list[tuple[StoredReceipt, bytes | None]]) -> None:
    """Do one round of the log again; it must end as it did."""
    server, clock = found.server, found.clock
    taken = [(receipt, body) for receipt, body in messages if receipt.accepted]
    clock.now = messages[0][0].at
    refused = len(messages) - len(taken)
    if refused:
        server.resume(replace(server.counts, refused=server.counts.refused + refused), server.released)
    if not taken:
        return
    updates = []
    for receipt, body in taken:
        if body is None:
            raise StoreError(f"the log lacks the accepted message {receipt.seq}")
        updates.append((receipt.client, decode_update(body, d=found.server.shape[0], c=found.server.shape[1])))
        found.logged, found.size = found.logged + 1, found.size + len(body)
    for again, (receipt, _) in zip(server.submit_round(updates), taken, strict=True):
        serial = None if again.head is None else again.head.serial
        if (again.accepted, again.number, serial) != (True, receipt.number, receipt.serial):
            raise StoreError(
                f"message {receipt.seq} of the log does not end as it did: {again.reason or 'other counts'}"
            )


def _check_head(connection: sa.Connection, server: Server) -> bytes | None:
    """Return the head that was broadcast; it stays, where this machine's arithmetic makes other last digits."""
    body = connection.execute(sa.select(HEAD.c.body)).scalar()
    head = None if body is None else decode_head(bytes(body))
    serials = [None if one is None else one.serial for one in (head, server.released)]
    if serials[0] != serials[1]:
        raise StoreError("the log does not lead to the head that was last broadcast")
    if head is not None and head != server.released:
        server.resume(server.counts, head)
    return None if body is None else bytes(body)
