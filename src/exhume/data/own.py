"""A user's own features: a .npz, .safetensors, .csv or .parquet file, a pair of .npy files, or a data frame."""

from __future__ import annotations

import csv
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from exhume.errors import DataError, InputError, MissingExtraError, NoteWarning

__all__ = ["LABEL_COLUMNS", "TEST_EVERY", "Split", "columns_of", "read_own", "split_arrays"]

TEST_EVERY = 5
"""Where a file names no test rows, rows 4, 9, 14, ... are the test set."""

LABEL_COLUMNS = ("label", "labels", "class", "target", "y")
"""What the column of the labels may be called in a table; where none is, it is the last one."""

MOST_NAMED = 6
"""Classes that a note names."""

LARGEST = 1e100
"""The largest of all features is at most this, and at least its inverse: sums of squares stay far inside float64."""

Array = NDArray[Any]
Split = tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.float64], NDArray[np.intp]]

LAYOUTS = "features, labels (and test_features, test_labels), or train_features, train_labels (and the test pair)"


def read_own(path: Path, labels: Path | None = None, *, mapped: bool = False) -> Split:
    """Train features, train labels, test features and test labels of a user's own file.

    Parameters
    ----------
    path : path
        ``.npz`` or ``.safetensors`` with arrays named as in `LAYOUTS`, a ``.csv`` or ``.parquet`` table with a column
        of labels, or a ``.npy`` file of features.
    labels : path, optional
        The ``.npy`` file of labels that goes with a ``.npy`` file of features.
    mapped : bool
        Whether labels may be any words or numbers; they become classes from 0, with a note. If not, they must be.

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
    return split_arrays(arrays, str(path), mapped=mapped)


def _numpy(path: Path) -> Array:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {_why(error)}") from error


def _why(error: Exception) -> str:
    """Return what NumPy says of a file, but not its advice to load pickles, which run whatever they hold."""
    return "it holds no plain arrays (pickled objects are not loaded)" if "pickle" in str(error) else str(error)


def _archive(path: Path) -> dict[str, Array]:
    if path.suffix == ".npz":
        try:
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (ValueError, OSError, EOFError, BadZipFile, zlib.error) as error:
            raise DataError(f"{path} cannot be read: {_why(error)}") from error
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return dict(load_file(path))
        except SafetensorError as error:
            raise DataError(f"{path} cannot be read: {error}") from error
    if path.suffix == ".csv":
        return columns_of(_csv(path), str(path))
    if path.suffix == ".parquet":
        return columns_of(_parquet(path), str(path))
    raise InputError("path", "a .npz, .npy, .safetensors, .csv or .parquet file", path)


def _csv(path: Path) -> dict[str, Array]:
    """Return the columns of a table of comma-separated values, which has a first line of names."""
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            names, *rows = list(csv.reader(stream)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    rows = [row for row in rows if row]
    uneven = next((number for number, row in enumerate(rows, 2) if len(row) != len(names)), None)
    if uneven is not None:
        raise DataError(f"{path} cannot be read: line {uneven} has another number of values than the first")
    if len(set(names)) != len(names) or all(_is_number(name) for name in names):
        raise InputError(f"first line of {path}", "different names of columns", ", ".join(names) or "none")
    return {name: np.array([row[i] for row in rows]) for i, name in enumerate(names)}


def _parquet(path: Path) -> dict[str, Array]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError("Parquet files", "tables") from None
    try:
        table = parquet.read_table(path)
        return {name: np.asarray(table[name]) for name in table.column_names}
    except (OSError, ValueError, NotImplementedError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def columns_of(table: Mapping[str, Array], where: str, label: str | None = None) -> dict[str, Array]:
    """Return a table of columns as features and labels.

    Parameters
    ----------
    table
        Columns by name.
    where
        What errors call the table.
    label
        The column of the labels; found by its usual names, or the last one, if not given.
    """
    names = list(table)
    if label is None and names:
        label = next((name for name in names if name.lower() in LABEL_COLUMNS), names[-1])
    if label is None or label not in table or len(names) < 2:
        raise InputError(f"columns of {where}", "some features and the labels", ", ".join(map(str, names)) or "none")
    rows = []
    for name in names:
        if name != label:
            try:
                rows.append(np.asarray(table[name]).astype(np.float64))
            except (ValueError, TypeError):
                raise InputError(f"column {name} of {where}", "numbers (the labels apart)", "something else") from None
    found = np.asarray(table[label])
    if found.dtype.kind in "OU" and len(found) and all(_is_number(str(value)) for value in found):
        found = found.astype(np.float64)
    return {"features": np.column_stack(rows), "labels": found}


def split_arrays(arrays: Mapping[str, Array], path: str, *, mapped: bool = False) -> Split:
    """Train features and labels, test features and labels, of named arrays; ``path`` is what errors call them."""
    prefix = "train_" if "train_features" in arrays else ""
    needed = (f"{prefix}features", f"{prefix}labels")
    if not all(name in arrays for name in needed):
        raise InputError(f"arrays in {path}", LAYOUTS, ", ".join(sorted(arrays)) or "none")
    features, labels = _checked(arrays[needed[0]], arrays[needed[1]], needed)
    _check_size(features, needed[0])
    if "test_features" not in arrays:
        classes = _classes([labels], needed[1], mapped)[0]
        test = np.arange(len(labels)) % TEST_EVERY == TEST_EVERY - 1
        return features[~test], classes[~test], features[test], classes[test]
    if "test_labels" not in arrays:
        raise InputError(f"arrays in {path}", LAYOUTS, ", ".join(sorted(arrays)))
    names = ("test_features", "test_labels")
    test_features, test_labels = _checked(arrays[names[0]], arrays[names[1]], names)
    if test_features.shape[1] != features.shape[1]:
        raise InputError(names[0], f"of width {features.shape[1]}, as {needed[0]}", test_features.shape[1])
    train_classes, test_classes = _classes([labels, test_labels], needed[1], mapped)
    return features, train_classes, test_features, test_classes


def _checked(features: Array, labels: Array, names: tuple[str, str]) -> tuple[NDArray[np.float64], Array]:
    if features.ndim != 2 or not np.issubdtype(features.dtype, np.number) or np.iscomplexobj(features):
        raise InputError(names[0], "a real array of two axes", f"shape {features.shape}, {features.dtype}")
    if labels.shape != features.shape[:1]:
        raise InputError(names[1], f"one for each of {features.shape[0]} rows", f"shape {labels.shape}")
    if not len(labels):
        raise InputError(names[0], "at least one row", "none")
    rows = features.astype(np.float64)
    if not np.isfinite(rows).all():
        raise InputError(names[0], "finite", f"{int((~np.isfinite(rows)).sum())} values that are not")
    return rows, _whole(labels, names[1])


def _check_size(features: NDArray[np.float64], name: str) -> None:
    """Refuse rows whose squares are beyond float64, or zero: there is nothing to learn from them."""
    largest = max(float(features.max()), -float(features.min())) if features.size else 0.0
    if not 1.0 / LARGEST <= largest <= LARGEST:
        allowed = f"numbers of which the largest is from {1.0 / LARGEST:g} to {LARGEST:g}: they are squared"
        raise InputError(name, allowed, f"{largest:g}")


def _whole(labels: Array, name: str) -> Array:
    """Return labels as whole numbers or as words."""
    if labels.dtype.kind in "biu":
        return labels.astype(np.int64)
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and np.array_equal(labels, np.round(labels)):
        return labels.astype(np.int64)
    if labels.dtype.kind in "UO" and all(isinstance(value, str) for value in labels):
        return labels.astype(np.str_)
    raise InputError(name, "whole numbers or words, one per row", f"{labels.dtype}")


def _classes(parts: list[Array], name: str, mapped: bool) -> list[NDArray[np.intp]]:
    """Return labels as classes from 0, without a gap; where that changes them, a note says how."""
    words = [part.dtype.kind == "U" for part in parts]
    if any(words) != all(words):
        raise InputError(name, "all numbers or all words", "both")
    if not mapped:
        if words[0] or min(int(part.min()) for part in parts) < 0:
            raise InputError(name, "classes from 0", "words" if words[0] else min(int(part.min()) for part in parts))
        return [part.astype(np.intp) for part in parts]
    known = np.unique(np.concatenate(parts))
    if words[0] or not np.array_equal(known, np.arange(len(known))):
        shown = [f"{value} is {i}" for i, value in enumerate(known[:MOST_NAMED])]
        more = f", and so on up to {len(known) - 1}" if len(known) > MOST_NAMED else ""
        warnings.warn(f"labels became classes from 0: {', '.join(shown)}{more}", NoteWarning, stacklevel=2)
    return [np.searchsorted(known, part).astype(np.intp) for part in parts]
