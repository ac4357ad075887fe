"""`digits`: the 8 x 8 handwritten digits that scikit-learn bundles; the default, since it needs no fetching."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from exhume.data.sets._base import DataSet, ImageSet, sha256_of_arrays
from exhume.errors import DataError

__all__ = ["DATA_SETS", "TEST_EVERY"]

TEST_EVERY = 5
"""Rows 4, 9, 14, ... are the test set: neighbours in the file share a writer, so both splits see all of them."""

LEVELS = 16
SHA256 = "6a9d19c9d6f7f9fdb07fee86892c95d64849ea694709c6204ff60baac6dff4c0"


def _table() -> NDArray[np.float64]:
    """Return the bundled table: 64 pixels and the label in each row."""
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise DataError("scikit-learn, which bundles the digits, is not installed")
    # Read where it lies: importing sklearn.datasets costs more than everything else that digits need.
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if path.is_file():
        return np.loadtxt(path, delimiter=",")
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return np.column_stack([bunch.data, bunch.target])


def _read(_: Path) -> ImageSet:
    table = _table()
    images = np.rint(table[:, :-1] * (255 / LEVELS)).astype(np.uint8).reshape(-1, 8, 8)
    labels = table[:, -1].astype(np.intp)
    found = sha256_of_arrays(images, labels.astype(np.uint8))
    if found != SHA256:
        raise DataError(f"scikit-learn's bundled digits have SHA-256 {found}, not {SHA256}")
    test = np.arange(len(labels)) % TEST_EVERY == TEST_EVERY - 1
    return ImageSet("digits", images[~test], labels[~test], images[test], labels[test], 10, SHA256)


DATA_SETS = (
    DataSet(
        name="digits",
        about="8 x 8 handwritten digits, bundled with scikit-learn; every fifth row is the test set",
        shape=(8, 8),
        classes=10,
        train_rows=1438,
        test_rows=359,
        sha256=SHA256,
        read=_read,
    ),
)
