"""A service as a client sees it over HTTP: a `Target` for an audit, and the way for an honest `Client`.

Every message has a key. A lost answer is asked for again under the same key, so that the message counts once however
often it was sent.
"""

from __future__ import annotations

import ipaddress
import math
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from exhume.errors import ConflictError, InputError, RefusedError, UnsettledError
from exhume.protocol.client import Client
from exhume.protocol.head import Head
from exhume.protocol.server import Receipt
from exhume.protocol.summary import Update
from exhume.protocol.wire import decode_head, encode_update
from exhume.service.app import SAFETENSORS

__all__ = ["Remote", "read_token"]

_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may be sent again."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


def read_token(path: str | Path) -> str:
    """Read a token from a file of one line."""
    allowed = "a file of one line, the token"
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except OSError as error:
        raise InputError("token file", allowed, f"'{path}' ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError("token file", allowed, f"'{path}', which is not text") from None
    if not text or len(text.split()) != 1 or len(text) > 512:
        raise InputError("token file", allowed, f"'{path}' with {len(text.split())} words")
    return text


class Remote:
    """A service over HTTP, as the holder of one client's token sees it.

    Parameters
    ----------
    address
        ``https://host[:port]``, or ``http://`` on this machine: a token is not sent in the clear over a network.
    token
        The client's token.
    seconds
        How long one request may take.
    patience
        How long a request is sent again while the service does not answer, or is too busy.
    ca_file
        The certificate of the authority that signed the service's, where the system does not know it.
    sleep
        What waits; another one in tests.
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        seconds: float = 30.0,
        patience: float = 60.0,
        ca_file: str | Path | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.address = _checked(address)
        self._patience, self._sleep = patience, sleep
        self._http = httpx.Client(
            base_url=self.address,
            headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"},
            timeout=seconds,
            verify=True if ca_file is None else _context(ca_file),
        )
        self._info: dict[str, Any] | None = None
        self._head: Head | None = None

    @property
    def info(self) -> dict[str, Any]:
        """What the service says of itself: sizes, formats, limits."""
        if self._info is None:
            self._info = _json(self._asked("GET", "/v1/info"))
        return self._info

    @property
    def shape(self) -> tuple[int, int]:
        """Feature dimensions and classes."""
        return int(self.info["d"]), int(self.info["c"])

    @property
    def grid(self) -> float | None:
        """The grid step of a bit-exact ledger."""
        return None if self.info["grid"] is None else float(self.info["grid"])

    @property
    def asks(self) -> tuple[str, ...]:
        """What every message must carry: of ``"rows"`` and ``"tag"``."""
        return tuple(self.info["asks"])

    @property
    def bounds(self) -> dict[str, float] | None:
        """What honest rows keep to; None where the service does not say."""
        found: dict[str, float] | None = self.info.get("bounds")
        return found

    @property
    def most_rows(self) -> int:
        """Most rows of one message."""
        return int(self.info["most_rows"])

    def head(self) -> Head:
        """Return the head last broadcast."""
        known = self._head
        headers = {} if known is None else {"If-None-Match": f'"{known.serial}"'}
        answer = self._asked("GET", "/v1/head", headers=headers)
        if answer.status_code == httpx.codes.NOT_MODIFIED and known is not None:
            return known
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise RefusedError("no head has been released yet")
        d, c = self.shape
        self._head = decode_head(answer.content, d=d, c=c)
        return self._head

    def submit(self, update: Update) -> Head:
        """Submit an update and return the head that is public afterwards."""
        return self.again(update, uuid.uuid4().hex)

    def again(self, update: Update, key: str) -> Head:
        """Send an update under a key that may have been sent before: it counts once, and the answer is the same."""
        receipt = self.receipt_of(update, key)
        if not receipt["accepted"]:
            raise RefusedError(f"the service refused it ({receipt['code']})", receipt["code"])
        return self.head()

    def applied(self, key: str) -> bool:
        """Say whether a message that was sent under a key counts."""
        answer = self._asked("GET", f"/v1/updates/{quote(key, safe='')}")
        return answer.status_code == httpx.codes.OK and bool(_json(answer).get("accepted"))

    def receipt_of(self, update: Update, key: str) -> dict[str, Any]:
        """Send an update under a key, and return its receipt."""
        headers = {"Idempotency-Key": key, "Content-Type": SAFETENSORS}
        answer = self._asked("POST", "/v1/updates", content=encode_update(update), headers=headers, key=key)
        if answer.status_code == httpx.codes.CONFLICT:
            raise ConflictError("this client", key)
        found = _json(answer)
        if found.get("key") != key or "accepted" not in found:
            raise RefusedError("the service answered with the receipt of another message")
        return found

    def client(self, name: str = "client") -> Client:
        """Return an honest client whose messages go to this service; it attaches what the service asks for."""
        return Client(_Host(self), name, show_rows="rows" in self.asks)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def _asked(self, method: str, path: str, *, key: str | None = None, **how: Any) -> httpx.Response:
        """Send a request until it is answered; what the answer forbids is an error of ours."""
        until = time.monotonic() + self._patience
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = self._http.request(method, path, **how)
            except httpx.TransportError as error:
                said, wait = f"{type(error).__name__}: {error}", pause
            else:
                if answer.status_code not in _BUSY:
                    return _allowed(answer)
                said, wait = f"status {answer.status_code}", _retry_after(answer, pause)
            if time.monotonic() + wait > until:
                raise UnsettledError(f"{self.address} did not answer within {self._patience:g} s ({said})", key)
            self._sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def __repr__(self) -> str:
        return f"Remote('{self.address}')"


class _Host:
    """Where an honest client's messages go."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    @property
    def shape(self) -> tuple[int, int]:
        return self._remote.shape

    @property
    def grid(self) -> float | None:
        return self._remote.grid

    def submit(self, update: Update, client: str) -> Receipt:
        found = self._remote.receipt_of(update, uuid.uuid4().hex)
        head = self._remote.head() if found["serial"] is not None else None
        reason = None if found["accepted"] else f"the service refused it ({found['code']})"
        return Receipt(client, found["accepted"], reason, head, found["number"], found["code"])


def _checked(address: str) -> str:
    parts = urlsplit(address)
    allowed = "https://host[:port], or http:// on this machine"
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise InputError("target", allowed, f"'{address}'")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InputError("target", f"{allowed}, without a name, a password or a question", "more than that")
    if parts.scheme == "http" and not _local(parts.hostname):
        raise InputError("target", f"{allowed}: a token is not sent in the clear", f"'{address}'")
    return address.rstrip("/")


def _local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _context(ca_file: str | Path) -> Any:
    import ssl

    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:
        raise InputError("ca file", "a certificate in PEM", f"'{ca_file}' ({error})") from None


def _json(answer: httpx.Response) -> dict[str, Any]:
    """Return an answer that is a JSON object."""
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise RefusedError("the service answered with something that is no JSON object: is this address one of Exhume?")
    return found


def _retry_after(answer: httpx.Response, pause: float) -> float:
    try:
        asked = float(answer.headers.get("retry-after", ""))
    except ValueError:
        return pause
    return max(asked, _FIRST_PAUSE) if math.isfinite(asked) else pause


def _allowed(answer: httpx.Response) -> httpx.Response:
    """Return an answer that its caller can read; raise what any other one means."""
    fine = (httpx.codes.OK, httpx.codes.NOT_MODIFIED, httpx.codes.NOT_FOUND, httpx.codes.CONFLICT)
    if answer.status_code in fine:
        return answer
    try:
        problem = answer.json()
        said = str(problem.get("detail") or problem.get("title") or answer.status_code)
    except ValueError:
        said = f"status {answer.status_code}"
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise InputError("token", "one that the service takes", said)
    raise RefusedError(f"the service did not take it: {said}")
