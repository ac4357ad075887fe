"""A whole server as bytes: what is plain, and what only the operator's key opens.

Totals, counts and the head are plain: that a deleted block is not in them can be checked by anybody who looks. What the
rules remember is sealed with the operator's key, since a digest or a sketch beside its salt would confirm a guess.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from exhume.defence.defences import Defences
from exhume.defence.memory import Memory, pack, unpack
from exhume.errors import StoreError
from exhume.protocol.drift import Lost
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Counts
from exhume.protocol.server import Server
from exhume.protocol.summary import Summary
from exhume.store.keys import OperatorKey
from exhume.store.schema import SNAPSHOT
from exhume.store.setup import ServerSetup, StepClock

__all__ = ["emptied", "memories", "read", "rebuilt", "taken", "write"]

_PIECE = 1 << 23
_MEMORIES = "memories of the rules"


def taken(server: Server, clock: StepClock, key: OperatorKey) -> dict[str, bytes]:
    """Return a server as two parts: the totals, and the sealed memories of its rules."""
    ledger, head, total = server.ledger, server.released, server.ledger.summary
    arrays = {"gram": total.gram, "moment": total.moment}
    values: dict[str, Any] = {"counts": asdict(server.counts), "lost": asdict(ledger.lost), "clock": clock.now}
    values["head"] = None
    if head is not None:
        arrays["head"] = head.weights
        values["head"] = {"precision": head.precision, "serial": head.serial}
    memories = key.seal(Defences.of(server).save(), _MEMORIES)
    return {"totals": pack("totals", {}, Memory(values, arrays)), "memories": memories}


def rebuilt(parts: dict[str, bytes], setup: ServerSetup, clock: StepClock, key: OperatorKey) -> Server:
    """Return the server that parts were taken from."""
    try:
        saved = unpack(parts["totals"], "totals", {})
        values, arrays = saved.values, saved.arrays
        total, lost = Summary.kept(arrays["gram"], arrays["moment"]), Lost(**values["lost"])
        told, counts = values["head"], Counts(**values["counts"])
        head = None if told is None else Head(arrays["head"], told["precision"], told["serial"])
        clock.now = max(clock.now, float(values["clock"]))
        memories = key.unseal(parts["memories"], _MEMORIES)
    except (KeyError, TypeError) as error:
        raise StoreError(f"the snapshot in the store cannot be read by this version ({error!r})") from error
    server = setup.server(Ledger(total, setup.gamma, setup.grid, lost), clock)
    Defences.of(server).load(memories)
    server.resume(counts, head)
    return server


def memories(parts: dict[str, bytes], key: OperatorKey) -> bytes:
    """Return what the rules remember, opened: for an operator who wants to see what there is."""
    return key.unseal(parts["memories"], _MEMORIES)


def _pieces(parts: dict[str, bytes]) -> list[dict[str, Any]]:
    """Return parts as rows of the table."""
    return [
        {"part": part, "place": i, "body": body[start : start + _PIECE]}
        for part, body in parts.items()
        for i, start in enumerate(range(0, len(body), _PIECE))
    ]


def write(connection: sa.Connection, parts: dict[str, bytes]) -> None:
    """Put parts in the place of those that are there. The table is emptied whole: no page of the old one stays."""
    emptied(connection, SNAPSHOT)
    for piece in _pieces(parts):
        connection.execute(SNAPSHOT.insert(), piece)


def read(connection: sa.Connection) -> dict[str, bytes]:
    """Return the parts that are there."""
    found: dict[str, list[bytes]] = {}
    for row in connection.execute(sa.select(SNAPSHOT).order_by(SNAPSHOT.c.part, SNAPSHOT.c.place)):
        found.setdefault(row.part, []).append(bytes(row.body))
    return {part: b"".join(rows) for part, rows in found.items()}


def emptied(connection: sa.Connection, table: sa.Table) -> None:
    """Empty a table whole: PostgreSQL gives it a new file then, SQLite overwrites its pages and shortens the file."""
    truncates = connection.dialect.name == "postgresql"
    connection.execute(sa.text(f"TRUNCATE {table.name}") if truncates else table.delete())
