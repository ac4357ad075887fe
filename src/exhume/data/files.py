"""What the data room shares: hashes of files and facts, room on the disk, folders with one worker at a time."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from exhume.errors import DataError
from exhume.files import held

__all__ = ["digest_of", "locked_folder", "reserve", "sha256_of_file", "short", "writing"]

_ZEROS = bytes(1 << 20)
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


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
def writing(place: Path) -> Iterator[None]:
    """Turn the errors of a full or failing disk into one that says where."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{place} cannot be written: {error.strerror or error}") from error


def reserve(stream: BinaryIO, size: int) -> None:
    """Take the room for a file of so many bytes now, so that a full disk is found before the work and not in it.

    What the file holds stays as it is. Where the system cannot reserve, the file is filled up with zeros.
    """
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(stream.fileno(), 0, size)
            return
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    left = size - stream.seek(0, os.SEEK_END)
    while left > 0:
        left -= stream.write(_ZEROS[: min(left, len(_ZEROS))])
    stream.flush()


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Hold a folder, made if need be, for this process alone (`held`); whoever comes second waits.

    The holder may rename or remove the folder: who waited for that looks again at what has the name now.
    """
    while True:
        path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as lock:
            try:
                wanted = path.stat()
                lock.enter_context(held(path))
                same = os.path.samestat(wanted, path.stat())
            except FileNotFoundError:  # renamed since
                continue
            if same:
                yield
                return
