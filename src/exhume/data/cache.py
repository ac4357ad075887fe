"""The cache of features: one folder per data set, encoder and number of rows, whole or absent."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.data.encoders import Encoder
from exhume.data.files import digest_of, sha256_of_file, short
from exhume.data.sets import DataSet
from exhume.errors import DataError
from exhume.files import atomic_file

__all__ = [
    "ARRAYS",
    "PARTIAL",
    "Arrays",
    "Ready",
    "cache_folder",
    "cache_key",
    "publish",
    "read_cache",
    "read_manifest",
]

FORMAT = 1
MANIFEST = "manifest.json"
PARTIAL = ".partial"
ARRAYS = ("train_features", "train_labels", "test_features", "test_labels")

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Ready:
    """A whole cache entry.

    Attributes
    ----------
    folder : path
        Where it lies.
    key : str
        Hash of the data, the encoder and the rows taken.
    arrays : tuple of arrays
        Train features, train labels, test features, test labels, as stored.
    resumed : int
        Rows that an earlier, interrupted run had finished.
    fresh : bool
        Whether this call computed it, rather than found it.
    """

    folder: Path
    key: str
    arrays: Arrays
    resumed: int = 0
    fresh: bool = False


def cache_key(entry: DataSet, model: Encoder, limit: int | None = None) -> str:
    """Hash under which features are cached: of the data, the encoder with its preprocessing, and the limit."""
    return digest_of(
        {"format": FORMAT, "data": entry.sha256, "encoder": model.fingerprint, "dim": model.dim, "limit": limit}
    )


def cache_folder(home: Path, entry: DataSet, model: Encoder, limit: int | None = None) -> Path:
    """Where the features of these belong."""
    return home / "features" / f"{entry.name}-{model.name}-{short(cache_key(entry, model, limit))}"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what a cache entry says of itself.

    Raises
    ------
    DataError
        If there is no readable manifest.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if manifest["format"] != FORMAT or set(manifest["files"]) != {f"{name}.npy" for name in ARRAYS}:
            raise ValueError("its manifest is of another format")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"the cache {folder} is damaged ({error}); remove it to compute it again") from error
    return dict(manifest)


def read_cache(folder: Path) -> Ready | None:
    """Return the cache entry in a folder, or None if there is none.

    Raises
    ------
    DataError
        If the entry is there but a file is missing or not what the manifest says.
    """
    if not folder.is_dir():
        return None
    manifest = read_manifest(folder)
    for name, digest in manifest["files"].items():
        path = folder / name
        if not path.is_file() or sha256_of_file(path) != digest:
            raise DataError(f"{path} is missing or damaged; remove {folder} to compute it again")
    train, train_labels, test, test_labels = (np.load(folder / f"{name}.npy") for name in ARRAYS)
    return Ready(folder, manifest["key"], (train, train_labels, test, test_labels))


def publish(work: Path, folder: Path, facts: dict[str, Any]) -> None:
    """Give a folder that holds all arrays its manifest and its final name.

    If another run was first, its entry stays and ours is dropped: both hold the same content.
    """
    hashes = {f"{name}.npy": sha256_of_file(work / f"{name}.npy") for name in ARRAYS}
    with atomic_file(work / MANIFEST) as stream:
        stream.write(json.dumps({"format": FORMAT, **facts, "files": hashes}, indent=2).encode())
    try:
        work.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(work)
