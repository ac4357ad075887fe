"""What a message was answered, for ever, and the signed statement of a deletion that its sender can check offline."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exhume.errors import InputError
from exhume.store.keys import OperatorKey, content_digest, signed_by

__all__ = ["SCOPES", "Checked", "StoredReceipt", "as_key", "check_statement", "statement"]

_KEY = re.compile(r"[!-~]{1,200}")

SCOPES = {
    "sqlite": "every file of the store; not backups that were taken before",
    "postgresql": "every table of the store; not the database's write-ahead log, replicas and backups",
}
"""What a deletion has left when a statement says so, by the kind of database."""


def as_key(key: object) -> str:
    """Return a client's name for one message."""
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise InputError("key", "1 to 200 printable ASCII characters without spaces", repr(key))
    return key


@dataclass(frozen=True)
class StoredReceipt:
    """The answer to one message as the store keeps it."""

    seq: int
    round: int
    """Messages of one round are one logical submission."""
    client: str
    key: str
    digest: bytes
    accepted: bool
    number: int
    """How many logical submissions the server had accepted by then."""
    serial: int | None
    """The number of the broadcast that followed; None where none did."""
    rule: str | None
    reason: str | None
    """Rule and reason of a refusal: for the operator."""
    at: float
    deletes: bool
    """Whether something was deleted by it."""
    erased_at: float | None = None
    """When what it deleted had left the store; None before."""


def statement(
    receipt: StoredReceipt, key: OperatorKey, *, store: str, scope: str, forget_seconds: float
) -> dict[str, Any]:
    """Return the signed statement of a deletion: taken when, gone from the disk when, or by when it will be.

    The digest of the message is keyed with `opener`, which the sender gets here and the store does not hold.
    """
    content = {
        "kind": "exhume-deletion-1",
        "store": store,
        "client": receipt.client,
        "key": receipt.key,
        "number": receipt.number,
        "digest": receipt.digest.hex(),
        "accepted_at": receipt.at,
        "erased_at": receipt.erased_at,
        "erased_by": receipt.at + forget_seconds,
        "erased_from": scope,
    }
    return {
        "statement": content,
        "opener": key.opener(receipt.client, receipt.key).hex(),
        "public_key": key.public,
        "signature": key.sign(_canonical(content)).hex(),
    }


@dataclass(frozen=True)
class Checked:
    """What a statement says, once its signature holds."""

    client: str
    key: str
    accepted_at: float
    erased_at: float | None
    erased_from: str


def check_statement(signed: Mapping[str, Any], public: str, body: bytes | None = None) -> Checked:
    """Check a statement offline; any doubt is an `InputError`.

    Parameters
    ----------
    signed
        What the service gave: statement, opener, signature.
    public
        The service's public key, from a place that is not the statement itself.
    body
        The bytes of the message that was sent, where the statement must be about it.
    """
    try:
        content, signature = dict(signed["statement"]), bytes.fromhex(signed["signature"])
        opener, digest = bytes.fromhex(signed["opener"]), bytes.fromhex(content["digest"])
        found = Checked(*(content[name] for name in ("client", "key", "accepted_at", "erased_at", "erased_from")))
        kind = content["kind"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError("receipt", "the signed statement of a deletion", f"something else ({error!r})") from None
    if kind != "exhume-deletion-1":
        raise InputError("kind", "exhume-deletion-1", kind)
    if not signed_by(public, _canonical(content), signature):
        raise InputError("signature", "one that the public key made of this statement", "another")
    if body is not None and not hmac.compare_digest(content_digest(opener, body), digest):
        raise InputError("digest", "that of the message", "that of another message")
    return found


def _canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
