"""Data sets by name. Adding one is adding a module here that defines the tuple `DATA_SETS`."""

from __future__ import annotations

from pathlib import Path

from exhume.data.home import home_folder
from exhume.data.sets._base import DataSet, ImageSet, sha256_of_arrays
from exhume.errors import InputError, unknown_name
from exhume.registry import Registry

__all__ = ["OWN", "REGISTRY", "DataSet", "ImageSet", "by_name", "load", "sha256_of_arrays"]

OWN = "features"
"""The name under which a user's own file of features goes; it has no images, so it is not in the registry."""


REGISTRY = Registry("data", __name__, "DATA_SETS", "exhume.data_sets", DataSet)
"""Every known data set of images, by name."""


def by_name(name: str) -> DataSet:
    """Return the registry entry of that name."""
    if name == OWN:
        raise InputError("data", f"one of {', '.join(sorted(REGISTRY))} where images are wanted", f"'{name}'")
    if name not in REGISTRY:
        raise unknown_name("data", name, [*REGISTRY, OWN])
    return REGISTRY[name]


def load(name: str, home: str | Path | None = None, *, download: bool = True) -> ImageSet:
    """Return the images of a data set, read from the home folder.

    Parameters
    ----------
    name : str
        Name in the registry, such as ``"digits"`` or ``"mnist"``.
    home : path, optional
        Home folder; see `exhume.data.home.home_folder`.
    download : bool
        Whether missing files may be fetched first.

    Raises
    ------
    InputError
        If there is no data set of that name.
    DataError
        If its files are missing and could not be fetched, or are not what their hashes say.
    """
    entry = by_name(name)
    if entry.holding is None:
        return entry.read(Path())
    from exhume.data.fetch import ensure

    return entry.read(ensure(entry.holding, home_folder(home), download=download))
