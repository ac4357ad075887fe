"""A malicious node: honest in form, its messages come from an attacker who works beside it.

A ClientApp lives for one message; an attack goes on over many rounds. The two meet in a folder: the attacker puts an
update in, the node sends it as its answer to the next round, and puts in what it hears. To the attacker the folder is a
`Target`. The server sees a node that answers every turn with a well-formed update.
"""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from exhume.errors import ExhumeError, InputError, RefusedError
from exhume.files import PRIVATE, atomic_file
from exhume.flower.client import Turn
from exhume.flower.records import News
from exhume.protocol.head import Head
from exhume.protocol.summary import Update
from exhume.protocol.wire import decode_head, decode_update, encode_head, encode_update

__all__ = ["Mailbox", "MailboxTarget", "Mole"]

T = TypeVar("T")


class Mailbox:
    """A folder in which an attacker and its node leave things for each other; each thing appears whole."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        if not self._folder.is_dir():
            raise InputError("mailbox", "a folder that is there", f"'{folder}'")
        self._out, self._news, self._sent = (self._folder / name for name in ("update", "news", "sent"))

    def put(self, update: Update) -> None:
        """Leave an update for the node; one at a time."""
        if self._out.exists():
            raise InputError("update", "left when the last one has been fetched", "an update that waits")
        self._sent.unlink(missing_ok=True)
        self._write(self._out, encode_update(update))

    def fetch(self, number: int) -> Update | None:
        """Take the update out, for a round. Asked again for the same round, it gives the same update."""
        if self._out.exists():
            body = self._out.read_bytes()
            self._write(self._sent, json.dumps({"round": number, "update": b64encode(body).decode()}).encode())
            self._out.unlink()
            return decode_update(body)
        told = self._read(self._sent)
        return decode_update(b64decode(told["update"])) if told.get("round") == number else None

    def withdraw(self) -> bool:
        """Take back an update that the node has not fetched; False if it has."""
        if not self._out.exists():
            return False
        self._out.unlink()
        return True

    def sent(self) -> int | None:
        """Return the round for which the last update was fetched; None where it still waits."""
        found = self._read(self._sent).get("round")
        return int(found) if found is not None else None

    def tell(self, news: News) -> None:
        """Leave what the node heard."""
        head = b64encode(encode_head(news.head)).decode()
        told = {"round": news.number, "taken": news.taken, "refused": news.refused, "head": head}
        self._write(self._news, json.dumps(told).encode())

    def news(self) -> News | None:
        """Return what the node heard last."""
        told = self._read(self._news)
        if not told:
            return None
        return News(int(told["round"]), decode_head(b64decode(told["head"])), told["taken"], told["refused"])

    def _write(self, path: Path, data: bytes) -> None:
        with atomic_file(path, PRIVATE) as stream:
            stream.write(data)

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            return dict(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return {}


class Mole:
    """The party behind a malicious node: it sends what its attacker leaves and passes on what it hears."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def contribute(self, turn: Turn) -> Update | None:
        """Send what lies in the mailbox, in a round in which additions are taken."""
        return None if turn.unlearn else self._mailbox.fetch(turn.number)

    def hear(self, news: News) -> Mapping[str, float]:
        """Pass it on."""
        self._mailbox.tell(news)
        return {}


class MailboxTarget:
    """A server on Flower as the attacker beside a node sees it: a `Target`. One submission takes one round.

    Parameters
    ----------
    mailbox
        Where the node looks.
    wait
        What passes the time until the next look: sleeps, or plays a round in this process.
    timeout
        How long to wait for a round, in seconds.
    """

    def __init__(self, mailbox: Mailbox, wait: Callable[[], object] | None = None, timeout: float = 120.0) -> None:
        if not 0 < timeout < float("inf"):
            raise InputError("timeout", "a finite number of seconds above 0", timeout)
        self._mailbox, self._timeout = mailbox, timeout
        self._wait = wait if wait is not None else lambda: time.sleep(0.1)

    def head(self) -> Head:
        """Return the head that the node heard last; waits for the first one."""
        return self._until(self._mailbox.news, "no head was heard").head

    def submit(self, update: Update) -> Head:
        """Let the node send an update in the next round; returns the head after it."""
        self._mailbox.put(update)
        news = self._until(self._heard, "the update was not sent, or its round was not heard of")
        if not news.taken:
            raise RefusedError(news.refused or "not in the ledger: it came too late or could not be read")
        return news.head

    def _heard(self) -> News | None:
        number, news = self._mailbox.sent(), self._mailbox.news()
        if number is None or news is None or news.number < number:
            return None
        if news.number > number:
            raise ExhumeError(f"the news of round {number} was missed: whether its update counts is not known")
        return news

    def _until(self, found: Callable[[], T | None], otherwise: str) -> T:
        end = time.monotonic() + self._timeout
        while (value := found()) is None:
            if time.monotonic() > end:
                back = "; it was withdrawn" if self._mailbox.withdraw() else ""
                raise ExhumeError(f"{otherwise} in {self._timeout:g} s{back}")
            self._wait()
        return value
