"""An inventory of what is at hand: the home folder, and the folders on EXHUME_DATA_PATH."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from exhume.data import encoders, sets
from exhume.data.cache import PARTIAL, read_cache, read_manifest
from exhume.data.catalogue import Holding
from exhume.data.fetch import holdings
from exhume.data.files import sha256_of_file
from exhume.data.home import data_path, home_folder
from exhume.errors import DataError

__all__ = ["inventory"]


def inventory(home: str | Path | None = None) -> dict[str, Any]:
    """Return what is stored, in plain types: fetched files, cached features, folders that may only be read."""
    place = home_folder(home)
    return {
        "home": str(place),
        "files": [row for holding in holdings().values() for row in _stored(holding, place)],
        "features": [_entry(folder) for folder in sorted((place / "features").glob("*")) if folder.is_dir()],
        "data_path": [_folder(folder) for folder in data_path()],
    }


def _stored(holding: Holding, home: Path) -> list[dict[str, Any]]:
    rows = []
    for item in holding.items:
        path = holding.folder(home) / item.name
        if path.is_file():
            digest = sha256_of_file(path)
            rows.append(
                {
                    "holding": holding.name,
                    "file": item.name,
                    "size": path.stat().st_size,
                    "state": "whole" if digest == item.sha256 else "damaged",
                    "sha256": digest,
                    "hash_from": item.hash_from,
                    "path": str(path),
                }
            )
    return rows


def _entry(folder: Path) -> dict[str, Any]:
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    row: dict[str, Any] = {"folder": folder.name, "size": size, "path": str(folder)}
    row |= dict.fromkeys(("data", "encoder", "dim", "key"), "-")
    if folder.suffix == PARTIAL:
        return row | {"state": "unfinished"}
    try:
        read_cache(folder)
        manifest = read_manifest(folder)
    except DataError:
        return row | {"state": "damaged"}
    return row | {name: manifest[name] for name in ("data", "encoder", "dim", "key")} | {"state": "whole"}


def _folder(folder: Path) -> dict[str, Any]:
    """Return the files of a read-only folder that Exhume has a use for, by name or size."""
    rows: list[dict[str, Any]] = []
    for file in sorted((*folder.glob("*"), *folder.glob("*/*"))) if folder.is_dir() else ():
        serves = _use(file) if file.is_file() else None
        if serves:
            rows.append({"file": str(file.relative_to(folder)), "size": file.stat().st_size, "serves": serves})
    return {"path": str(folder), "exists": folder.is_dir(), "files": rows}


def _use(file: Path) -> str | None:
    for data in sets.REGISTRY:
        for encoder, entry in encoders.REGISTRY.items():
            if entry.holding is not None and file.name in (
                f"{data}_{encoder}_{split}.npz" for split in ("train", "test")
            ):
                return f"precomputed features of {data} under {encoder}"
    size = file.stat().st_size
    near = [
        (holding.name, item)
        for holding in holdings().values()
        for item in holding.items
        if file.name in (item.name, f"{item.name}.gz") or size == item.size
    ]
    if not near:
        return None
    digest = sha256_of_file(file)
    exact = [name for name, item in near if item.sha256 == digest]
    return f"{exact[0]}, SHA-256 as known" if exact else f"perhaps {near[0][0]}, once unpacked and checked"
