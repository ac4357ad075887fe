"""Files that are whole or absent, whatever happens while they are written, and that two processes do not mix up."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl

__all__ = ["PRIVATE", "atomic_file", "held", "remove_stale", "write_files"]

PRIVATE = 0o600
"""The mode of a file with secrets: for its owner only."""

_SUFFIX = ".part"


@contextmanager
def atomic_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a stream to a temporary neighbour of `path` that takes its name only when the block ends well.

    The mode is that of the new file, less the umask, whatever the old one's was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_SUFFIX}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_files(contents: Mapping[Path, str | bytes]) -> None:
    """Write files that belong together: all are on the disk, under other names, before the first takes its own.

    A device or a pipe is written to, and a link keeps pointing to where it points.
    """
    with ExitStack() as stack:
        for path, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            if path.exists() and not path.is_file() and not path.is_dir():
                path.write_bytes(data)
                continue
            stream = stack.enter_context(atomic_file(Path(os.path.realpath(path))))
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())


def remove_stale(path: Path) -> None:
    """Remove what killed writers of `path` left beside it; nobody may be writing it now (`held`)."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}{re.escape(_SUFFIX)}")
    for found in path.parent.iterdir():
        if pattern.fullmatch(found.name):
            found.unlink(missing_ok=True)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes and threads that do the same; its entries are on disk when it is let go.

    Who is killed lets go. Where the system has no such lock (Windows) this does nothing.
    """
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
        os.fsync(handle)  # the names in it, such as that of a file just replaced
    finally:
        os.close(handle)
