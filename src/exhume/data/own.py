"""A user's own features: one .npz or .safetensors file, or a pair of .npy files."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from exhume.errors import DataError, InputError

__all__ = ["TEST_EVERY", "Split", "read_own", "split_arrays"]

TEST_EVERY = 5
"""Where a file names no test rows, rows 4, 9, 14, ... are the test set."""

Array = NDArray[np.generic]
Split = tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.float64], NDArray[np.intp]]

LAYOUTS = "features, labels (and test_features, test_labels), or train_features, train_labels (and the test pair)"


def read_own(path: Path, labels: Path | None = None) -> Split:
    """Train features, train labels, test features and test labels of a user's own file.

    Parameters
    ----------
    path : path
        ``.npz`` or ``.safetensors`` with arrays named as in `LAYOUTS`, or a ``.npy`` file of features.
    labels : path, optional
        The ``.npy`` file of labels that goes with a ``.npy`` file of features.

    Raises
    ------
    InputError
        If the file's type, names, shapes or values are not as allowed.
    DataError
        If the file is missing or cannot be read.
    """
    for file in (path, labels):
        if file is not None and not file.is_file():
            raise DataError(f"{file} is not a file")
    if path.suffix == ".npy":
        if labels is None:
            raise InputError("labels", "the .npy file of labels that goes with a .npy file of features", None)
        arrays: dict[str, Array] = {"features": _numpy(path), "labels": _numpy(labels)}
    elif labels is not None:
        raise InputError("labels", f"absent for {path.suffix} files, which hold their labels", labels)
    else:
        arrays = _archive(path)
    return split_arrays(arrays, str(path))


def _numpy(path: Path) -> Array:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _archive(path: Path) -> dict[str, Array]:
    if path.suffix == ".npz":
        try:
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (ValueError, OSError, EOFError, BadZipFile, zlib.error) as error:
            raise DataError(f"{path} cannot be read: {error}") from error
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return dict(load_file(path))
        except SafetensorError as error:
            raise DataError(f"{path} cannot be read: {error}") from error
    raise InputError("path", "a .npz, .npy or .safetensors file", path)


def split_arrays(arrays: Mapping[str, Array], path: str) -> Split:
    """Train features and labels, test features and labels, of named arrays; ``path`` is what errors call them."""
    prefix = "train_" if "train_features" in arrays else ""
    needed = (f"{prefix}features", f"{prefix}labels")
    if not all(name in arrays for name in needed):
        raise InputError(f"arrays in {path}", LAYOUTS, ", ".join(sorted(arrays)) or "none")
    features, labels = _checked(arrays[needed[0]], arrays[needed[1]], needed)
    if "test_features" not in arrays:
        test = np.arange(len(labels)) % TEST_EVERY == TEST_EVERY - 1
        return features[~test], labels[~test], features[test], labels[test]
    if "test_labels" not in arrays:
        raise InputError(f"arrays in {path}", LAYOUTS, ", ".join(sorted(arrays)))
    names = ("test_features", "test_labels")
    test_features, test_labels = _checked(arrays[names[0]], arrays[names[1]], names)
    if test_features.shape[1] != features.shape[1]:
        raise InputError(names[0], f"of width {features.shape[1]}, as {needed[0]}", test_features.shape[1])
    return features, labels, test_features, test_labels


def _checked(features: Array, labels: Array, names: tuple[str, str]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    if features.ndim != 2 or not np.issubdtype(features.dtype, np.number) or np.iscomplexobj(features):
        raise InputError(names[0], "a real array of two axes", f"shape {features.shape}, {features.dtype}")
    if labels.shape != features.shape[:1] or not np.issubdtype(labels.dtype, np.integer):
        allowed = f"integers of shape {features.shape[:1]}"
        raise InputError(names[1], allowed, f"shape {labels.shape}, {labels.dtype}")
    if not len(labels):
        raise InputError(names[0], "at least one row", "none")
    rows = features.astype(np.float64)
    if not np.isfinite(rows).all():
        raise InputError(names[0], "finite", f"{int((~np.isfinite(rows)).sum())} values that are not")
    if int(labels.min()) < 0:
        raise InputError(names[1], "classes from 0", int(labels.min()))
    return rows, labels.astype(np.intp)
