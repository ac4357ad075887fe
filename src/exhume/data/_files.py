"""Small file operations that the data room shares: hashes, and writes that are whole or absent."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_file", "digest_of", "sha256_of_file", "short"]


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest_of(facts: Mapping[str, object]) -> str:
    """SHA-256 of a few named facts, in an order and spelling that do not depend on the machine."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def short(digest: str) -> str:
    """Return the first twelve digits of a hash, for people."""
    return digest[:12]


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a stream to a temporary neighbour of `path` that takes its name only when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
