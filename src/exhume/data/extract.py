"""Feature extraction that survives being killed.

A run writes into a folder whose name ends in ``.partial``: the features in place, and a journal with one line per
finished batch. A later run believes a batch only if its bytes still hash to what the journal says, so it goes on
from the last finished one. The folder takes its final name when everything is there. Two runs of the same extraction
do not meet: the second waits, and then finds the cache.

The room for the features is reserved first. They are written and read as a file, not mapped into memory: a full disk is
then an error, where it would be a signal that kills the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from exhume.data import sets
from exhume.data.cache import PARTIAL, Ready, cache_folder, cache_key, publish, read_cache
from exhume.data.encoders import Encoder
from exhume.data.files import locked_folder, reserve, writing
from exhume.data.sets import DataSet
from exhume.errors import DataError, InputError
from exhume.files import atomic_file

__all__ = ["BATCH", "Tick", "batches", "encode", "extract"]

BATCH = 256
"""Rows per batch, as in the paper."""

JOURNAL = "journal.jsonl"

Array = NDArray[Any]
Tick = Callable[[int, int, int], None]
"""Called with the rows done, those of them that an earlier run had finished, and the rows in all."""


def batches(rows: int, batch: int) -> Iterator[tuple[int, int]]:
    """Start and stop of each batch."""
    if batch < 1:
        raise InputError("batch", "at least 1", batch)
    return ((start, min(start + batch, rows)) for start in range(0, rows, batch))


def encode(model: Encoder, images: Array, batch: int) -> NDArray[np.float32]:
    """Features of all rows, encoded batch by batch in memory."""
    features = np.empty((len(images), model.dim), np.float32)
    for start, stop in batches(len(images), batch):
        features[start:stop] = _encode_batch(model, images[start:stop])
    return features


def extract(
    entry: DataSet,
    model: Encoder,
    home: Path,
    *,
    limit: int | None = None,
    batch: int = BATCH,
    download: bool = True,
    tick: Tick | None = None,
) -> Ready:
    """Return the cache entry of a data set under an encoder, computed if need be.

    Batch size and device are not part of the key, since they change features by rounding only; an interrupted
    run is continued only with the same ones, so that the outcome is bitwise that of an uninterrupted run.

    Parameters
    ----------
    entry, model : DataSet and Encoder
        What to encode, and with what.
    home : path
        Home folder.
    limit : int, optional
        Take only the first rows of both splits.
    batch : int
        Rows that are encoded together.
    download : bool
        Whether missing files may be fetched.
    tick : callable, optional
        Called after each batch.
    """
    folder = cache_folder(home, entry, model, limit)
    found = read_cache(folder)
    if found is not None:
        return found
    get_ready = getattr(model, "get_ready", None)
    if get_ready is not None:  # what cannot encode (no torch, no such device) fetches no images and leaves no folder
        get_ready()
    pictures = sets.load(entry.name, home, download=download).head(limit)
    work = folder.with_name(f"{folder.name}-{batch}-{model.device.replace(':', '')}{PARTIAL}")
    with writing(work), locked_folder(work):
        found = read_cache(folder)  # somebody may have been first while we waited
        if found is not None:
            shutil.rmtree(work)
            return found
        return _extracted(entry, model, pictures, work, folder, limit, batch, tick)


def _extracted(
    entry: DataSet,
    model: Encoder,
    pictures: sets.ImageSet,
    work: Path,
    folder: Path,
    limit: int | None,
    batch: int,
    tick: Tick | None,
) -> Ready:
    """Fill the work folder, publish it, and read back what was published."""
    resumed = _run(model, {"train": pictures.train_images, "test": pictures.test_images}, work, batch, tick)
    for split, labels in (("train", pictures.train_labels), ("test", pictures.test_labels)):
        with atomic_file(work / f"{split}_labels.npy") as stream:
            np.save(stream, labels.astype(np.uint8 if entry.classes <= 256 else np.int64))
    facts = {
        "key": cache_key(entry, model, limit),
        "data": entry.name,
        "data_sha256": entry.sha256,
        "encoder": model.name,
        "encoder_fingerprint": model.fingerprint,
        "dim": model.dim,
        "classes": entry.classes,
        "limit": limit,
        "batch": batch,
        "device": model.device,
    }
    publish(work, folder, facts)
    whole = read_cache(folder)
    if whole is None:
        raise DataError(f"the cache {folder} vanished while it was being written")
    (folder / JOURNAL).unlink(missing_ok=True)
    return replace(whole, resumed=resumed, fresh=True)


def _run(model: Encoder, splits: dict[str, Array], work: Path, batch: int, tick: Tick | None) -> int:
    """Encode every batch that the journal does not vouch for; returns the rows that it did vouch for."""
    journal = _read_journal(work / JOURNAL)
    total = sum(len(images) for images in splits.values())
    done = resumed = 0
    with ExitStack() as files:
        stores = {
            split: files.enter_context(_Store.opened(work / f"{split}_features.npy", (len(images), model.dim)))
            for split, images in splits.items()
        }
        log = files.enter_context((work / JOURNAL).open("ab"))
        for split, images in splits.items():
            store = stores[split]
            for start, stop in batches(len(images), batch):
                mark = f"{split}:{start}:{stop}"
                if journal.get(mark) == store.hash(start, stop):
                    resumed += stop - start
                else:
                    store.write(start, _encode_batch(model, images[start:stop]))
                    _append(log, mark, store.hash(start, stop))
                done += stop - start
                if tick is not None:
                    tick(done, resumed, total)
    return resumed


def _encode_batch(model: Encoder, images: Array) -> NDArray[np.float32]:
    features = model.encode(images)
    if features.shape != (len(images), model.dim) or not np.isfinite(features).all():
        raise DataError(f"the {model.name} encoder gave features that are not finite and {model.dim} wide")
    return features


class _Store:
    """Rows of float32 in a ``.npy`` file whose room is reserved."""

    def __init__(self, stream: BinaryIO, begin: int, width: int) -> None:
        self._stream, self._begin, self._bytes = stream, begin, 4 * width

    @classmethod
    @contextmanager
    def opened(cls, path: Path, shape: tuple[int, int]) -> Iterator[_Store]:
        """Open the features of an earlier run if they fit, else a new file."""
        header = BytesIO()
        # One spelling of the header: a file of this shape starts with these very bytes.
        facts = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, facts)
        begin = header.tell()
        size = begin + shape[0] * shape[1] * 4
        with path.open("r+b" if path.is_file() else "w+b") as stream:
            known = stream.read(begin) == header.getvalue() and stream.seek(0, os.SEEK_END) == size
            if not known:
                stream.truncate(0)
                stream.seek(0)
                stream.write(header.getvalue())
                stream.flush()
            try:
                reserve(stream, size)
            except OSError:
                if not known:  # what was reserved so far is of no use
                    stream.truncate(0)
                raise
            yield cls(stream, begin, shape[1])
            stream.flush()
            os.fsync(stream.fileno())

    def write(self, start: int, rows: NDArray[np.float32]) -> None:
        """Put rows in their place."""
        self._stream.seek(self._begin + start * self._bytes)
        self._stream.write(np.ascontiguousarray(rows, dtype="<f4").tobytes())
        self._stream.flush()

    def hash(self, start: int, stop: int) -> str:
        """Return the hash of the rows as they are in the file."""
        self._stream.seek(self._begin + start * self._bytes)
        return hashlib.sha256(self._stream.read((stop - start) * self._bytes)).hexdigest()


def _append(log: BinaryIO, mark: str, digest: str) -> None:
    # The newline leads, so that a line torn by a kill spoils itself and not the next one.
    log.write(b"\n" + json.dumps([mark, digest]).encode())
    log.flush()
    os.fsync(log.fileno())


def _read_journal(path: Path) -> dict[str, str]:
    finished: dict[str, str] = {}
    for line in path.read_text(errors="replace").splitlines() if path.is_file() else []:
        try:
            mark, digest = json.loads(line)
        except ValueError:
            continue
        finished[mark] = digest
    return finished
