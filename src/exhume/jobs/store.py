"""Finished work on disk: one line of JSON per result, only ever appended, safe for several processes at once."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: appending is whole there, but two writers at once are not kept apart
    fcntl = None  # type: ignore[assignment]

__all__ = ["Store"]

Result = dict[str, Any]
_BEGIN = 60


class Store:
    """An append-only file of results by key.

    Each line is written whole, under a lock, and forced to the disk. A line that a kill has torn spoils itself alone,
    and its work is done again. What other processes append to the same file is seen too.

    Parameters
    ----------
    path
        The file; it and its folder are made by the first `put`.
    fresh
        Whether to empty it first.
    """

    def __init__(self, path: str | Path, *, fresh: bool = False) -> None:
        self.path = Path(path)
        self._found: dict[str, Result] = {}
        self._seconds: dict[str, float] = {}
        self._read = 0
        """How far the file has been read, to the end of a line."""
        self._begin = b""
        """How the file began then: another beginning means that somebody has emptied it since."""
        self._stamp = (0, 0)
        if fresh and self.path.exists():
            with self._locked() as file:
                os.ftruncate(file, 0)
                _write(file, json.dumps({"emptied": uuid.uuid4().hex}).encode() + b"\n")
        self._catch_up()

    def __len__(self) -> int:
        self._catch_up()
        return len(self._found)

    def __contains__(self, key: object) -> bool:
        if key not in self._found:
            self._catch_up()
        return key in self._found

    def __getitem__(self, key: str) -> Result:
        if key not in self:
            raise KeyError(key)
        return self._found[key]

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}: {len(self)} results)"

    def seconds(self, keys: Iterable[str]) -> float:
        """Return the processor time that some results took when they were computed."""
        return sum(self._seconds.get(key, 0.0) for key in keys)

    def put(self, key: str, result: Result, *, inputs: object = None, seconds: float = 0.0) -> None:
        """Append one result; it is on the disk when this returns. ``inputs`` are for people who read the file."""
        shown = json.loads(json.dumps(inputs, default=_readable))
        entry = {"key": key, "inputs": shown, "result": result, "seconds": round(seconds, 3)}
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as file:
            torn = os.lseek(file, 0, os.SEEK_END) > 0 and _last(file) != b"\n"
            _write(file, b"\n" + line if torn else line)
            os.fsync(file)
        # It is read back like anybody's line: what a later run finds is what this one returns.
        self._catch_up()
        if key not in self._found:  # emptied by another process in this moment
            self._found[key], self._seconds[key] = json.loads(line)["result"], seconds

    def _catch_up(self) -> None:
        """Read the whole lines that were appended since the last look."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return
        stamp = (found.st_size, found.st_mtime_ns)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        with self.path.open("rb") as file:
            begin = file.read(_BEGIN)
            if not begin.startswith(self._begin):
                self._read = 0
            self._begin = begin
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for line in whole.split(b"\n"):
            try:
                entry = json.loads(line)
                key, result, seconds = str(entry["key"]), dict(entry["result"]), float(entry["seconds"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # torn by a kill, or no line of ours: that work is done again
            self._found[key], self._seconds[key] = result, seconds

    @contextmanager
    def _locked(self) -> Iterator[int]:
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)  # which gives the lock back


def _readable(value: object) -> object:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else repr(value)


def _last(file: int) -> bytes:
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1)


def _write(file: int, line: bytes) -> None:
    while line:
        line = line[os.write(file, line) :]
