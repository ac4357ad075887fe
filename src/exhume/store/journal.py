"""The log of messages since the snapshot, and the receipts of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from exhume.protocol.summary import Update
from exhume.store.receipts import StoredReceipt
from exhume.store.schema import LOG, RECEIPTS

__all__ = ["Sent", "find", "found_many", "last", "since", "write"]

_COLUMNS = tuple(column.name for column in RECEIPTS.columns)
_MANY = 200


@dataclass(frozen=True, eq=False)
class Sent:
    """One message as it came: whose, under which key, its bytes and what they say."""

    client: str
    key: str
    body: bytes
    update: Update


def _as_receipt(row: Any) -> StoredReceipt:
    return StoredReceipt(**{name: getattr(row, name) for name in _COLUMNS} | {"digest": bytes(row.digest)})


def find(connection: sa.Connection, client: str, key: str) -> StoredReceipt | None:
    """Return what a client was answered under a key."""
    wanted = sa.select(RECEIPTS).where(RECEIPTS.c.client == client, RECEIPTS.c.key == key)
    row = connection.execute(wanted).first()
    return None if row is None else _as_receipt(row)


def found_many(connection: sa.Connection, sent: Sequence[Sent]) -> dict[tuple[str, str], StoredReceipt]:
    """Return what was answered before under any of these clients' keys."""
    found: dict[tuple[str, str], StoredReceipt] = {}
    for start in range(0, len(sent), _MANY):
        some = sent[start : start + _MANY]
        same = sa.or_(*(sa.and_(RECEIPTS.c.client == one.client, RECEIPTS.c.key == one.key) for one in some))
        for row in connection.execute(sa.select(RECEIPTS).where(same)):
            found[row.client, row.key] = _as_receipt(row)
    return found


def write(connection: sa.Connection, receipts: Sequence[StoredReceipt], bodies: dict[int, bytes]) -> None:
    """Write receipts, and the bodies of accepted messages by their receipts' numbers."""
    if receipts:
        connection.execute(RECEIPTS.insert(), [asdict(receipt) for receipt in receipts])
    for seq, body in bodies.items():  # one by one: a list of large bodies would be held twice
        connection.execute(LOG.insert(), {"seq": seq, "body": body})


def last(connection: sa.Connection) -> tuple[int, int, float]:
    """Return the last receipt's number, the last round's, and the latest time."""
    found = connection.execute(
        sa.select(sa.func.max(RECEIPTS.c.seq), sa.func.max(RECEIPTS.c.round), sa.func.max(RECEIPTS.c.at))
    ).one()
    return int(found[0] or 0), int(found[1] or 0), float(found[2] or 0.0)


def since(connection: sa.Connection, seq: int) -> Iterator[list[tuple[StoredReceipt, bytes | None]]]:
    """Return rounds after a receipt's number, in order, each message with its body where it was accepted."""
    joined = RECEIPTS.outerjoin(LOG, RECEIPTS.c.seq == LOG.c.seq)
    wanted = sa.select(RECEIPTS, LOG.c.body).select_from(joined).where(RECEIPTS.c.seq > seq).order_by(RECEIPTS.c.seq)
    rows = connection.execution_options(yield_per=8).execute(wanted)
    pairs = ((_as_receipt(row), None if row.body is None else bytes(row.body)) for row in rows)
    for _, group in groupby(pairs, key=lambda pair: pair[0].round):
        yield list(group)
