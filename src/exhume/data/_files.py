"""Hashes of files and facts, which the data room shares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["digest_of", "sha256_of_file", "short"]


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
