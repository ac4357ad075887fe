"""Features of a data set under an encoder: from the cache, from EXHUME_DATA_PATH, or computed."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from exhume.capacity import require_memory
from exhume.data import encoders, sets
from exhume.data.cache import Arrays, cache_folder, cache_key, read_cache
from exhume.data.encoders import Encoder, Options
from exhume.data.extract import BATCH, Tick, encode, extract
from exhume.data.files import digest_of, sha256_of_file
from exhume.data.home import data_path, home_folder
from exhume.data.on_demand import EncodedRows
from exhume.data.own import columns_of, read_own, split_arrays
from exhume.data.sets import OWN, DataSet, ImageSet
from exhume.errors import DataError, InputError

__all__ = ["FeatureSet", "given_features", "load_features"]


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """Features and labels of one data set under one encoder, in the data set's own row order.

    Attributes
    ----------
    train_features, test_features : array of float64, N x d
        The arrays are read-only.
    train_labels, test_labels : array of intp
        Class of each row, from 0.
    classes : int
        Number of classes c.
    data, encoder : str
        Their names.
    fingerprint : str
        Hash that names the content: of data, encoder and preprocessing if Exhume computed the features, of
        the files' bytes if it was given them.
    source : str
        ``"computed"``, ``"computed on demand"``, ``"cache"``, ``"EXHUME_DATA_PATH"``, ``"file"`` or ``"given"``.
    images : ImageSet, optional
        The pictures behind the rows, if they were asked for.
    path : path, optional
        The cache folder or file that the features were read from or written to.
    """

    train_features: NDArray[np.float64]
    train_labels: NDArray[np.intp]
    test_features: NDArray[np.float64]
    test_labels: NDArray[np.intp]
    classes: int
    data: str
    encoder: str
    fingerprint: str
    source: str
    images: ImageSet | None = None
    path: Path | None = None

    @property
    def dim(self) -> int:
        """Number of features d."""
        return int(self.train_features.shape[1])

    def __repr__(self) -> str:
        return (
            f"FeatureSet(data={self.data!r}, encoder={self.encoder!r}, dim={self.dim}, "
            f"train={len(self.train_labels)}, test={len(self.test_labels)}, source={self.source!r})"
        )


def load_features(
    data: str = "digits",
    encoder: str = "random-relu",
    *,
    dim: int | None = None,
    seed: int = 0,
    home: str | Path | None = None,
    path: str | Path | None = None,
    labels: str | Path | None = None,
    limit: int | None = None,
    weights: str | Path | None = None,
    sha256: str | None = None,
    resize: str = "float",
    device: str = "cpu",
    batch: int = BATCH,
    images: bool = False,
    download: bool = True,
    given: bool = True,
    keep: bool = False,
    on_demand: bool = False,
    tick: Tick | None = None,
) -> FeatureSet:
    """Return the features of a data set under an encoder.

    They come from the first of these that has them: the cache in the home folder; for encoders that need
    weights, a folder on EXHUME_DATA_PATH; else they are computed, and cached if the encoder needs weights.

    Parameters
    ----------
    data : str
        A data set's name, or ``"features"`` for the user's own file at `path`.
    encoder : str
        An encoder's name.
    dim : int, optional
        Wanted number of features, for encoders that leave it open.
    seed : int
        Seed of random encoders.
    home : path, optional
        Home folder.
    path, labels : path, optional
        The user's own features (and the labels, if `path` is a ``.npy`` file).
    limit : int, optional
        Take only the first rows of both splits.
    weights, sha256 : path and str, optional
        A weight file to use in place of the fetched one, and the hash it must have.
    resize : {'float', '8-bit'}
        How images are brought to the size that a network wants; see `exhume.data.encoders.Options`.
    device : str
        Torch device.
    batch : int
        Rows that are encoded together.
    images : bool
        Whether to attach the pictures.
    download : bool
        Whether missing images and weights may be fetched.
    given : bool
        Whether precomputed features on EXHUME_DATA_PATH may be used.
    keep : bool
        Whether to cache also what is quicker to compute than to read.
    on_demand : bool
        Whether features that are quicker to compute than to read are encoded when their rows are asked for
        (`exhume.data.on_demand`), so that they take no memory.
    tick : callable, optional
        Called with rows done, rows of them that an earlier run had finished, and rows in all.

    Raises
    ------
    InputError
        If a name is unknown or an option does not fit.
    DataError
        If files are missing, damaged or not what their hashes say.
    MissingExtraError
        If the encoder needs an extra that is not installed.
    """
    if limit is not None and limit < 1:
        raise InputError("limit", "at least 1", limit)
    if batch < 1:
        raise InputError("batch", "at least 1", batch)
    place = home_folder(home)
    options = Options(
        width=0,
        dim=dim,
        seed=seed,
        device=device,
        weights=_path(weights),
        sha256=sha256,
        home=place,
        resize=resize,
    )
    if data == OWN:
        if images:
            raise InputError("data", "a set with pictures, which a user's own features have not", data)
        return _from_file(encoder, options, _path(path), _path(labels), limit, batch)
    if path is not None or labels is not None:
        raise InputError("path", f"given only with data '{OWN}'", path or labels)
    entry = sets.by_name(data)
    model = encoders.build(encoder, replace(options, width=int(np.prod(entry.shape))))
    if on_demand and encoders.REGISTRY.find(model.name).holding is None:
        pictures = sets.load(data, place, download=download).head(limit)
        asked = _on_demand(entry, model, pictures, cache_key(entry, model, limit))
        return replace(asked, images=pictures) if images else asked
    _require_room(model, entry.train_rows + entry.test_rows, limit)
    found = _cached(entry, model, place, limit)
    # What lies on EXHUME_DATA_PATH was made with the official weights and resized as floats.
    if found is None and given and weights is None and resize == "float":
        found = _given(entry, model, limit)
    if found is None:
        found = _computed(entry, model, place, limit, batch, download, keep, tick)
    return replace(found, images=sets.load(data, place, download=download).head(limit)) if images else found


def _require_room(model: Encoder, rows: int, limit: int | None) -> None:
    """Refuse features that memory cannot hold: as they are computed, in float32, and as they are used, in float64."""
    count = rows if limit is None else min(rows, 2 * limit)
    require_memory("dim", model.dim, 12.0 * count * model.dim, f"the features of {count} rows")


def _classes(*labels: NDArray[np.intp]) -> int:
    """Return how many classes there are, from 0 to the largest label; memory must hold a column for each."""
    classes = 1 + max(int(part.max(initial=0)) for part in labels)
    rows = sum(len(part) for part in labels)
    require_memory("labels", f"{classes - 1}", 8.0 * classes * rows, f"{classes} classes of {rows} rows")
    return classes


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path).expanduser()


def _cached(entry: DataSet, model: Encoder, home: Path, limit: int | None) -> FeatureSet | None:
    ready = read_cache(cache_folder(home, entry, model, limit))
    return None if ready is None else _wrap(ready.arrays, entry, model, ready.key, "cache", ready.folder)


def _given(entry: DataSet, model: Encoder, limit: int | None) -> FeatureSet | None:
    """Return precomputed features of a folder on EXHUME_DATA_PATH; only for encoders that need weights."""
    if encoders.REGISTRY.find(model.name).holding is None:
        return None
    for folder in data_path():
        files = [folder / "features" / f"{entry.name}_{model.name}_{split}.npz" for split in ("train", "test")]
        if all(file.is_file() for file in files):
            return _from_path(files, entry, model, limit)
    return None


def _from_path(files: list[Path], entry: DataSet, model: Encoder, limit: int | None) -> FeatureSet:
    train, test = (_read_pair(file) for file in files)
    rows = (entry.train_rows, entry.test_rows)
    for file, pair, expected in zip(files, (train, test), rows, strict=True):
        if pair[0].shape != (expected, model.dim):
            raise DataError(f"{file} holds features of shape {pair[0].shape}, not {(expected, model.dim)}")
    arrays = (train[0][:limit], train[1][:limit], test[0][:limit], test[1][:limit])
    facts = {file.name: sha256_of_file(file) for file in files}
    key = digest_of({**facts, "limit": limit})
    return _wrap(arrays, entry, model, key, "EXHUME_DATA_PATH", files[0].parent)


def _read_pair(path: Path) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return the arrays `features` and `labels` of a precomputed .npz file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return archive["features"], archive["labels"]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is not a file of precomputed features: {error}") from error


def _computed(
    entry: DataSet,
    model: Encoder,
    home: Path,
    limit: int | None,
    batch: int,
    download: bool,
    keep: bool,
    tick: Tick | None,
) -> FeatureSet:
    if keep or encoders.REGISTRY.find(model.name).holding is not None:
        ready = extract(entry, model, home, limit=limit, batch=batch, download=download, tick=tick)
        return _wrap(ready.arrays, entry, model, ready.key, "computed", ready.folder)
    # Encoders without weights cost less than reading a cache, so nothing is written.
    pictures = sets.load(entry.name, home, download=download).head(limit)
    train, test = (encode(model, rows, batch) for rows in (pictures.train_images, pictures.test_images))
    arrays = (train, pictures.train_labels, test, pictures.test_labels)
    return _wrap(arrays, entry, model, cache_key(entry, model, limit), "computed")


def _on_demand(entry: DataSet, model: Encoder, pictures: ImageSet, key: str) -> FeatureSet:
    train, test = (
        cast(NDArray[np.float64], EncodedRows(model, rows)) for rows in (pictures.train_images, pictures.test_images)
    )
    labels = (np.asarray(part, dtype=np.intp) for part in (pictures.train_labels, pictures.test_labels))
    train_labels, test_labels = labels
    return FeatureSet(
        train, train_labels, test, test_labels, entry.classes, entry.name, model.name, key, "computed on demand"
    )


def _from_file(
    encoder: str, options: Options, path: Path | None, labels: Path | None, limit: int | None, batch: int
) -> FeatureSet:
    """Return the user's own features, encoded once more only if an encoder other than `none` is named."""
    if path is None:
        raise InputError("path", f"the file to read when data is '{OWN}'", path)
    train, train_labels, test, test_labels = read_own(path, labels, mapped=True)
    classes = _classes(train_labels, test_labels)
    if encoders.REGISTRY.find(encoder).holding is not None:
        raise InputError("encoder", f"none or random-relu for data '{OWN}', which has no images", encoder)
    model = encoders.build(encoder, replace(options, width=train.shape[1]))
    _require_room(model, len(train) + len(test), limit)
    arrays: Arrays = (train[:limit], train_labels[:limit], test[:limit], test_labels[:limit])
    if encoder != "none":
        arrays = (encode(model, arrays[0], batch), arrays[1], encode(model, arrays[2], batch), arrays[3])
    files = [sha256_of_file(file) for file in (path, labels) if file is not None]
    key = digest_of({"files": files, "encoder": model.fingerprint, "limit": limit})
    return _freeze(arrays, classes, OWN, encoder, key, "file", path)


def given_features(features: Any, labels: Any = None) -> FeatureSet:
    """Return arrays or a data frame as a feature set of one's own; rows 4, 9, 14, ... are the test set.

    Parameters
    ----------
    features
        Rows of real features, two axes; or a data frame (of pandas or polars).
    labels
        One class per row: any words or whole numbers. For a data frame it may be the name of a column; left out, the
        column is found by its usual names, or is the last one.
    """
    if hasattr(features, "columns") and (labels is None or isinstance(labels, str)):
        table = {str(name): np.asarray(features[name]) for name in features.columns}
        named = columns_of(table, "the data frame", labels)
    elif labels is None:
        raise InputError("labels", "one class per row of features", "nothing")
    else:
        named = {"features": np.asarray(features), "labels": np.asarray(labels)}
    arrays = split_arrays(named, "the arrays given", mapped=True)
    classes = _classes(arrays[1], arrays[3])
    digests = [hashlib.sha256(np.ascontiguousarray(part).tobytes()).hexdigest() for part in arrays]
    return _freeze(arrays, classes, OWN, "none", digest_of({"arrays": digests}), "given", None)


def _wrap(
    arrays: Arrays, entry: DataSet, model: Encoder, key: str, source: str, path: Path | None = None
) -> FeatureSet:
    return _freeze(arrays, entry.classes, entry.name, model.name, key, source, path)


def _freeze(
    arrays: Arrays, classes: int, data: str, encoder: str, key: str, source: str, path: Path | None
) -> FeatureSet:
    train, test = (np.array(part, dtype=np.float64) for part in arrays[::2])
    train_labels, test_labels = (np.array(part, dtype=np.intp) for part in arrays[1::2])
    for array in (train, train_labels, test, test_labels):
        array.flags.writeable = False
    return FeatureSet(train, train_labels, test, test_labels, classes, data, encoder, key, source, path=path)
