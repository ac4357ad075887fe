"""Rows that a live audit sends and surely takes back: planned in a file first, sent and deleted under known keys.

A service that answers by receipts needs no guessing from heads. Every message has a key, and its deletion has that key
with an ending. Whether either counts can be asked at any time, also after the service or the audit has died, and a
deletion that is sent twice counts once.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from exhume.errors import InputError, RefusedError
from exhume.numerics import Matrix, Rows
from exhume.protocol.grid import snap
from exhume.protocol.head import Head
from exhume.protocol.message import itemise
from exhume.protocol.summary import Update
from exhume.protocol.target import ServiceTarget

__all__ = ["Answered", "PlannedRows", "RowJournal", "Sender", "is_row_journal"]

FORMAT = "exhume-undo-rows/1"

Sender = Literal["attacker", "owner"]


@dataclass(eq=False)
class PlannedRows:
    """One message of rows: what it adds, under which key, and what has become of it."""

    key: str
    sender: Sender
    features: Matrix
    labels: Rows
    state: Literal["planned", "doubt", "stands", "gone"] = "planned"

    @property
    def undo_key(self) -> str:
        """The key of its deletion."""
        return f"{self.key}-undo"


@dataclass(frozen=True, eq=False)
class Answered:
    """What came back for one message."""

    head: Head
    serial: int | None
    """The broadcast that followed it; None where that was withheld."""

    @property
    def fresh(self) -> bool:
        """Whether the head is the one that followed: nobody else's message came in between."""
        return self.serial is not None and self.head.serial == self.serial


@dataclass(eq=False)
class RowJournal:
    """The messages of one audit, by whom, and the file that names them while any may stand.

    Parameters
    ----------
    links
        The service as each sender sees it.
    folder
        Where the file goes.
    name
        The service, as people call it.
    """

    links: Mapping[str, ServiceTarget]
    folder: Path
    name: str = ""
    file: Path | None = None
    messages: int = 0
    _planned: list[PlannedRows] = field(default_factory=list)

    @classmethod
    def resumed(cls, links: Mapping[str, ServiceTarget], file: Path) -> RowJournal:
        """Return the journal that an earlier audit left."""
        made = cls(links, file.parent, file=file)
        made.name, made._planned = _read(file)
        for one in made._planned:
            if one.sender not in links:
                raise InputError("owner-token-file", "given: rows of the owner's are to be taken back", "none")
            if one.features.shape[1] != links[one.sender].shape[0]:
                got = f"rows of {one.features.shape[1]} features"
                raise InputError("target", "the service that the file is of", got)
        return made

    def plan(self, sender: Sender, batches: Iterable[tuple[Matrix, Rows]]) -> list[PlannedRows]:
        """Name messages that may be sent from now on; they are in the file before any of them is."""
        grid = self.links[sender].grid
        made = [PlannedRows(secrets.token_hex(16), sender, snap(F, grid), y) for F, y in batches]
        self._planned += made
        self._write()
        return made

    def add(self, one: PlannedRows) -> Answered:
        """Send a planned message.

        Raises
        ------
        RefusedError
            If the service refused it; it is not in the ledger then.
        """
        one.state = "doubt"
        answer = self._sent(one, one.key)
        if answer is None:
            one.state = "planned"
            raise RefusedError(f"the service refused rows ({self._code})", self._code)
        one.state = "stands"
        return answer

    def delete(self, one: PlannedRows) -> Answered:
        """Take a message back."""
        answer = self._sent(one, one.undo_key)
        if answer is None:
            raise RefusedError(f"the service refused to delete rows that it had taken ({self._code})", self._code)
        one.state = "gone"
        return answer

    def update(self, one: PlannedRows, *, undo: bool = False) -> Update:
        """Return what a message says, with its rows attached where the service asks for them."""
        link = self.links[one.sender]
        # On a grid the sums of products are exact, and the factor of more than one row is not.
        factored = False if link.grid is not None and len(one.labels) > 1 else None
        side = "delete" if undo else "add"
        made = itemise(link.shape[1], **{side: (one.features, one.labels)}, factored=factored)
        return made if "rows" in link.asks else Update(made.add, made.delete)

    def restore(self) -> None:
        """Take back every message that stands or may stand; the file goes when nothing is left."""
        try:
            for one in reversed(self._planned):
                if one.state == "doubt":
                    self._settle(one)
                if one.state == "stands":
                    self.delete(one)
        except BaseException:
            self._planned = [one for one in self._planned if one.state in ("doubt", "stands")]
            self._write()
            raise
        self._planned = []
        self._write()

    def undo(self) -> int:
        """Take back what an earlier audit left, by the receipts of its keys; returns how many messages stood."""
        for one in self._planned:
            link = self.links[one.sender]
            if link.applied(one.key) and not link.applied(one.undo_key):
                one.state = "stands"
        found = sum(one.state == "stands" for one in self._planned)
        self.restore()
        return found

    def _settle(self, one: PlannedRows) -> None:
        """Send a message of which nobody knows whether it arrived again: under its key it counts once, for sure."""
        one.state = "planned" if self._sent(one, one.key) is None else "stands"

    def _sent(self, one: PlannedRows, key: str) -> Answered | None:
        link = self.links[one.sender]
        self.messages += 1
        receipt: Mapping[str, Any] = link.receipt_of(self.update(one, undo=key == one.undo_key), key)
        self._code = receipt["code"]
        return Answered(link.head(), receipt["serial"]) if receipt["accepted"] else None

    def _write(self) -> None:
        if not self._planned:
            if self.file is not None:
                self.file.unlink(missing_ok=True)
            self.file = None
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.file is None:
            names = (self.folder / f"undo-{n}.safetensors" for n in range(1, 10**6))
            self.file = next(path for path in names if not path.exists())
        facts = {
            "target": self.name,
            "messages": [{"key": one.key, "sender": one.sender, "rows": len(one.labels)} for one in self._planned],
        }
        arrays = {
            "features": np.concatenate([one.features for one in self._planned]),
            "labels": np.concatenate([one.labels for one in self._planned]).astype(np.int64),
        }
        waiting = self.file.with_suffix(".part")
        with waiting.open("wb") as stream:
            stream.write(save(arrays, metadata={"format": FORMAT, "facts": json.dumps(facts)}))
            stream.flush()
            os.fsync(stream.fileno())
        waiting.replace(self.file)


def is_row_journal(file: Path) -> bool:
    """Whether a file names messages of rows."""
    try:
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            return FORMAT.encode() in stream.read(min(size, 1 << 24))
    except OSError:
        return False


def _read(file: Path) -> tuple[str, list[PlannedRows]]:
    allowed = "a file that a live audit left with what it could not take back"
    try:
        data = file.read_bytes()
        arrays = load(data)
        size = int.from_bytes(data[:8], "little")
        facts = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["facts"])
        ends = np.cumsum([0, *(int(one["rows"]) for one in facts["messages"])])
        features, labels = np.asarray(arrays["features"], np.float64), arrays["labels"].astype(np.intp)
        if features.shape[0] != len(labels) or len(labels) != ends[-1]:
            raise InputError("undo", allowed, f"'{file}' (rows are missing)")
        return str(facts["target"]), _messages(facts["messages"], ends, features, labels)
    except OSError as error:
        raise InputError("undo", allowed, f"'{file}' ({error.strerror})") from None
    except (SafetensorError, KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError("undo", allowed, f"'{file}' ({type(error).__name__})") from None


def _messages(told: Sequence[Mapping[str, Any]], ends: Rows, features: Matrix, labels: Rows) -> list[PlannedRows]:
    found = []
    for one, start, end in zip(told, ends, ends[1:], strict=False):
        sender: Sender = "owner" if one["sender"] == "owner" else "attacker"
        found.append(PlannedRows(str(one["key"]), sender, features[start:end], labels[start:end]))
    return found
