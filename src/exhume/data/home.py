"""Where data lives: the home folder that Exhume writes, and the folders it may only read."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from exhume.errors import InputError

__all__ = ["DATA_PATH_VARIABLE", "HOME_VARIABLE", "data_path", "home_folder"]

HOME_VARIABLE = "EXHUME_HOME"
DATA_PATH_VARIABLE = "EXHUME_DATA_PATH"


def home_folder(home: str | Path | None = None) -> Path:
    """Return the folder that holds fetched files and cached features.

    It is `home`, else EXHUME_HOME, else the platform's cache folder. Only what writes creates it.
    """
    chosen = home or os.environ.get(HOME_VARIABLE)
    place = Path(chosen).expanduser() if chosen else _platform_cache() / "exhume"
    nearest = next((folder for folder in (place, *place.parents) if folder.exists()), place)
    if nearest.exists() and not nearest.is_dir():
        raise InputError("home", "a folder, or the name of one to make", f"'{place}' ('{nearest}' is a file)")
    return place


def _platform_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    stated = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path is to be ignored.
    return Path(stated) if Path(stated).is_absolute() else Path.home() / ".cache"


def data_path() -> tuple[Path, ...]:
    """Return the folders on EXHUME_DATA_PATH, in order: read-only mirrors of files, weights and features."""
    entries = os.environ.get(DATA_PATH_VARIABLE, "").split(os.pathsep)
    return tuple(Path(entry).expanduser() for entry in entries if entry)
