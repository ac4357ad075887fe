"""Finished trials on disk: one JSON line each, appended as soon as it is done, found again by its key."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType

from pydantic import ValidationError

from exhume.audit.records import CellRecord, TrialRecord

__all__ = ["Store"]


class Store:
    """An append-only file of finished records; use as a context manager.

    Parameters
    ----------
    folder
        Where the file lies; it is created.
    fresh
        Whether to forget what earlier runs left.
    """

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "trials.jsonl"
        if fresh:
            self.path.unlink(missing_ok=True)
        self._done = _read(self.path)
        self._file = self.path.open("ab")

    def get(self, key: str) -> CellRecord | TrialRecord | None:
        """Return a finished record, if there is one."""
        return self._done.get(key)

    def add(self, key: str, record: CellRecord | TrialRecord) -> None:
        """Keep a finished record."""
        self._done[key] = record
        kind = "cell" if isinstance(record, CellRecord) else "trial"
        line = json.dumps({"key": key, "kind": kind, "record": record.model_dump(mode="json")})
        # The newline leads, so that a line torn by a kill spoils itself and not the next one.
        self._file.write(b"\n" + line.encode())
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _read(path: Path) -> dict[str, CellRecord | TrialRecord]:
    done: dict[str, CellRecord | TrialRecord] = {}
    if not path.is_file():
        return done
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            model = CellRecord if entry["kind"] == "cell" else TrialRecord
            done[entry["key"]] = model.model_validate(entry["record"])
        except (ValueError, KeyError, TypeError, ValidationError):
            continue  # torn by a kill, or of another version: done again
    return done
