"""Who may: one token for each client and each operator, kept as a digest, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from dataclasses import dataclass

import sqlalchemy as sa

from exhume.errors import InputError, StoreError
from exhume.store.schema import CLIENTS

__all__ = ["KINDS", "NAME", "Enrolled", "Tokens", "new_token"]

KINDS = {"client": "c", "operator": "o"}
"""The kinds of tokens, and the letter that tells them apart."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
_TOKEN = re.compile(r"exhume_([co])_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


@dataclass(frozen=True)
class Enrolled:
    """One token's holder."""

    id: str
    name: str
    kind: str
    digest: str
    made_at: float
    revoked_at: float | None = None


def new_token(kind: str) -> tuple[str, str, str]:
    """Return a new token, its public part, and the digest of it that is kept."""
    public, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    token = f"exhume_{KINDS[kind]}_{public}_{secret}"
    return token, public, hashlib.sha256(token.encode()).hexdigest()


class Tokens:
    """All tokens of a store: read once, kept in memory, changed on the disk first."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine, self._mutex = engine, threading.Lock()
        with engine.connect() as connection:
            found = [Enrolled(*row) for row in connection.execute(sa.select(*(CLIENTS.c[name] for name in _COLUMNS)))]
        self._held = {one.id: one for one in found}

    def holder(self, token: str, kind: str) -> Enrolled | None:
        """Return whose token this is; None where it is of another kind, revoked or nobody's."""
        parts = _TOKEN.fullmatch(token)
        one = None if parts is None else self._held.get(parts[2])
        digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        same = hmac.compare_digest(digest, _NOBODY if one is None else one.digest)
        return one if same and one is not None and one.kind == kind and one.revoked_at is None else None

    def active(self, kind: str = "client") -> list[Enrolled]:
        """Return who holds a token of a kind that is not revoked, by name."""
        return sorted((e for e in self._held.values() if e.kind == kind and e.revoked_at is None), key=lambda e: e.name)

    def all(self, kind: str = "client") -> list[Enrolled]:
        """Return every token of a kind that there ever was, the oldest first."""
        return sorted((one for one in self._held.values() if one.kind == kind), key=lambda one: one.made_at)

    def enrol(self, name: str, kind: str = "client") -> str:
        """Return a token for somebody new; it is shown once and kept nowhere."""
        if NAME.fullmatch(name) is None:
            raise InputError("name", "1 to 128 letters, digits and ._@+-, the first a letter or digit", repr(name))
        with self._mutex:
            if any(one.name == name for one in self.active(kind)):
                raise InputError("name", "one that holds no token yet (rotate gives a new one)", repr(name))
            return self._made(name, kind, ())

    def adopt(self, token: str, name: str, kind: str, *, alone: bool = False) -> None:
        """Take a token that was made elsewhere (`exhume serve init`); ``alone`` ends all others of its kind."""
        parts = _TOKEN.fullmatch(token)
        if parts is None or parts[1] != KINDS[kind]:
            raise InputError("token", f"a token of kind {kind}, as exhume serve init writes it", "something else")
        digest = hashlib.sha256(token.encode()).hexdigest()
        with self._mutex:
            old = tuple(self.active(kind)) if alone else ()
            self._write((Enrolled(parts[2], name, kind, digest, time.time()),), old)

    def rotate(self, name: str, kind: str = "client") -> str:
        """Return a new token for somebody; the old ones are no longer taken."""
        with self._mutex:
            return self._made(name, kind, self._of(name, kind))

    def revoke(self, name: str, kind: str = "client") -> None:
        """Take no more of somebody's tokens. What was sent under them stays in the ledger."""
        with self._mutex:
            if kind == "operator" and len(self.active("operator")) == 1:
                raise InputError("name", "not that of the last operator", repr(name))
            self._write((), self._of(name, kind))

    def _of(self, name: str, kind: str) -> tuple[Enrolled, ...]:
        found = tuple(one for one in self.active(kind) if one.name == name)
        if not found:
            raise InputError("name", "one that holds a token", repr(name))
        return found

    def _made(self, name: str, kind: str, old: tuple[Enrolled, ...]) -> str:
        token, public, digest = new_token(kind)
        self._write((Enrolled(public, name, kind, digest, time.time()),), old)
        return token

    def _write(self, new: tuple[Enrolled, ...], old: tuple[Enrolled, ...]) -> None:
        now = time.time()
        try:
            with self._engine.begin() as connection:
                for one in old:
                    connection.execute(CLIENTS.update().where(CLIENTS.c.id == one.id).values(revoked_at=now))
                for one in new:
                    connection.execute(CLIENTS.insert(), {name: getattr(one, name) for name in _COLUMNS})
        except (sa.exc.SQLAlchemyError, OSError) as error:
            raise StoreError(f"the store cannot be written: {getattr(error, 'orig', None) or error}") from error
        held = dict(self._held)
        held |= {one.id: Enrolled(one.id, one.name, one.kind, one.digest, one.made_at, now) for one in old}
        self._held = held | {one.id: one for one in new}


_COLUMNS = ("id", "name", "kind", "digest", "made_at", "revoked_at")
