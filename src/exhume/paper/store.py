"""Finished work on disk: one line of JSON per job, only ever appended, keyed by a hash of everything that went in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from exhume.data.home import home_folder

__all__ = ["Store", "default_store"]

Result = dict[str, Any]


def default_store(home: str | Path | None = None) -> Path:
    """Return where results are kept: ``paper/trials.jsonl`` in the home folder."""
    return home_folder(home) / "paper" / "trials.jsonl"


class Store:
    """An append-only file of finished jobs.

    Parameters
    ----------
    path
        The file; it and its folder are made on the first `put`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._found: dict[str, Result] = {}
        self._seconds: dict[str, float] = {}
        for key, result, seconds in self._lines():
            self._found[key], self._seconds[key] = result, seconds

    def _lines(self) -> Iterator[tuple[str, Result, float]]:
        if not self.path.is_file():
            return
        with self.path.open("r", encoding="utf-8") as lines:
            for line in lines:
                try:
                    entry = json.loads(line)
                    yield entry["key"], entry["result"], float(entry["seconds"])
                except (json.JSONDecodeError, KeyError, TypeError):
                    # An interrupted write leaves half a line: its job simply runs again.
                    continue

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def __getitem__(self, key: str) -> Result:
        return self._found[key]

    def seconds(self, keys: Iterable[str]) -> float:
        """Return the processor time that some finished jobs took when they ran."""
        return sum(self._seconds.get(key, 0.0) for key in keys)

    def put(self, key: str, inputs: dict[str, Any], result: Result, seconds: float = 0.0) -> None:
        """Append one finished job and push it to the disk's cache."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(
            {"key": key, "inputs": inputs, "result": result, "seconds": round(seconds, 3)}, separators=(",", ":")
        )
        with self.path.open("a", encoding="utf-8") as out:
            if out.tell() and not self._ends_line():
                out.write("\n")
            out.write(line + "\n")
            out.flush()
        # What is read later must be what was computed now, so both take the same way through JSON.
        self._found[key], self._seconds[key] = json.loads(line)["result"], seconds

    def _ends_line(self) -> bool:
        with self.path.open("rb") as raw:
            raw.seek(-1, os.SEEK_END)
            return raw.read(1) == b"\n"
