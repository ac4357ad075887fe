"""Where output goes, checked before any work: a run of hours must not end at a folder that cannot be written."""

from __future__ import annotations

import tempfile
from pathlib import Path

from exhume.cli._options import STDOUT
from exhume.errors import InputError

__all__ = ["check_file", "check_folder"]

ENOUGH = bytes(1 << 16)
"""What a folder must be able to take: less than any report."""


def check_folder(option: str, folder: Path) -> None:
    """Make sure that files can be written into a folder, which need not be there yet. Leaves nothing behind."""
    there = folder.expanduser()
    while not _exists(option, there):
        there = there.parent
    if not there.is_dir():
        raise InputError(option, "a folder, or the name of one to make", f"'{folder}' ('{there}' is a file)")
    try:
        with tempfile.TemporaryFile(dir=there) as stream:
            stream.write(ENOUGH)
    except OSError as error:
        raise InputError(option, "a folder that can be written", f"'{folder}' ({error.strerror})") from None


def check_file(option: str, file: str | Path | None) -> None:
    """Make sure that a file can be written; nothing and standard output always can."""
    if file is None or str(file) == STDOUT:
        return
    path = Path(file)
    if _exists(option, path):
        if path.is_dir():
            raise InputError(option, "a file to write", f"'{path}' (a folder)")
        if not path.is_file():  # a device or a pipe
            return
    check_folder(option, path.parent)


def _exists(option: str, path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return path == path.parent
    except (OSError, ValueError) as error:
        raise InputError(option, "a place that can be reached", f"'{path}' ({error})") from None
    return True
