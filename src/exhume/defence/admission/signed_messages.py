"""Authenticated origin: a message counts only with a tag that its client's key makes, and only once."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from exhume.defence.admission._numbers import content
from exhume.defence.memory import Memory, Saveable, keep_entries
from exhume.errors import InputError
from exhume.protocol import AdmissionRule, Head, Target, Update
from exhume.protocol.message import Message, message
from exhume.protocol.rules import Undo

__all__ = ["SignedMessages", "SignedTarget", "Signer", "sign"]

LEAST_KEY = 16


def _tag(update: Message, client: str, counter: int, key: bytes) -> bytes:
    name = client.encode("utf-8", "surrogatepass")  # any text is a name
    body = b"".join(
        (
            b"exhume origin 2",
            len(name).to_bytes(8, "little"),
            name,
            counter.to_bytes(8, "little"),
            update.pairs.to_bytes(8, "little"),
            content(update.add),
            content(update.delete),
            *(bytes(32) if batch is None else batch.digest() for batch in (update.added, update.deleted)),
            repr((update.added_counts, update.deleted_counts)).encode(),
        )
    )
    return hmac.new(key, body, hashlib.sha256).digest()


def sign(update: Update, client: str, counter: int, key: bytes) -> Message:
    """Tag an update: HMAC-SHA256 over client, counter, the digests of both summaries and everything attached.

    The tag comes last: whatever is attached, changed or taken off afterwards makes another message of it.
    """
    numbered = replace(message(update), counter=counter)
    return replace(numbered, tag=_tag(numbered, client, counter, key))


class Signer:
    """A client's side: its key and the number of its next message."""

    def __init__(self, client: str, key: bytes, counter: int = 1) -> None:
        _check_key(client, key)
        self.client = client
        self.counter = counter
        self._key = key

    def __call__(self, update: Update) -> Message:
        """Tag the next message."""
        signed = sign(update, self.client, self.counter, self._key)
        self.counter += 1
        return signed


class SignedTarget:
    """A `Target` that tags every update on its way."""

    def __init__(self, target: Target, signer: Signer) -> None:
        self._target = target
        self._signer = signer

    def head(self) -> Head:
        """Return the head that the server last released."""
        return self._target.head()

    def submit(self, update: Update) -> Head:
        """Tag and submit an update."""
        return self._target.submit(self._signer(update))


class SignedMessages(Saveable, AdmissionRule):
    """Refuses messages without a valid tag, of unknown clients, and whose counter is not above the last accepted.

    Every rule that keeps something per client rests on this one: without it a client is whoever it says it is.

    Parameters
    ----------
    keys
        One secret key per registered client, at least 16 bytes each.
    """

    name = "signed-messages"
    about = "messages carry their client's tag, each once"
    example: ClassVar[Mapping[str, Any]] = {"keys": {"alice": "sixteen bytes or more"}}
    former = ("origin",)
    reads: ClassVar[str] = "client"

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        for client, key in keys.items():
            _check_key(client, key)
        self._keys = dict(keys)
        self._last: dict[str, int] = {}

    def refuse(self, update: Update, client: str) -> str | None:
        """Check registration, tag and counter, in this order."""
        key = self._keys.get(client)
        if key is None:
            return f"{self.name}: '{client}' is not a registered client"
        if not isinstance(update, Message) or not update.tag:
            return f"{self.name}: the message carries no tag"
        if not hmac.compare_digest(update.tag, _tag(update, client, update.counter, key)):
            return f"{self.name}: the tag is not one that the key of '{client}' makes for this content"
        last = self._last.get(client, 0)
        if update.counter <= last:
            return f"{self.name}: counter {update.counter} was used up (last accepted: {last}): a repeated message"
        return None

    def record(self, update: Update, client: str) -> None:
        """Use up the counter."""
        if isinstance(update, Message):
            self._last[client] = update.counter

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Keep these clients' counters."""
        return keep_entries(self._last, clients)

    @property
    def asks(self) -> frozenset[str]:
        """Messages must carry a tag."""
        return frozenset({"tag"})

    # No configuration: clients may be registered between saving and loading.

    def remembered(self) -> Memory:
        """Return the last counter of each client."""
        return Memory({"last": dict(self._last)})

    def restore(self, memory: Memory) -> None:
        """Take over the last counters."""
        self._last = {client: int(counter) for client, counter in memory.values["last"].items()}

    def __repr__(self) -> str:
        return f"SignedMessages(clients={len(self._keys)})"


def _check_key(client: str, key: bytes) -> None:
    if len(key) < LEAST_KEY:
        raise InputError(f"key of '{client}'", f"at least {LEAST_KEY} bytes", f"{len(key)} bytes")


RULES = (SignedMessages,)
