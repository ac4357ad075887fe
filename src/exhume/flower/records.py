"""Updates and heads as Flower records, and back.

Arrays travel as Flower's own: an npy image in an `ArrayRecord`, float64 bit for bit. A receiver believes nothing that
is claimed of an array: neither the record's shape and dtype nor the image's header are used before they are the
expected ones and the bytes are as many as that takes. What comes out is then checked like any other input.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from exhume.errors import WireError
from exhume.protocol.head import Head
from exhume.protocol.message import MOST, Batch, Message
from exhume.protocol.summary import Summary, Update

__all__ = [
    "ABOUT",
    "VERSION",
    "News",
    "about",
    "as_array",
    "news_of",
    "news_records",
    "update_of",
    "update_records",
    "whole",
]

VERSION = 1
ABOUT = "exhume"
"""The name of the configuration record in every message of ours."""

_UPDATE, _HEAD, _WEIGHTS = "update", "head", "weights"
_SIDES = ("add", "delete")
_ROWS = {"add": "added", "delete": "deleted"}
_STORED = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": "<f4"}
_MAGIC = b"\x93NUMPY\x01\x00"
_MOST_HEADER = 512


def as_array(array: Array, name: str, dtype: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return the content of a Flower array of this dtype and shape (None leaves a length open), or a `WireError`."""
    data = array.data
    if array.stype != "numpy.ndarray" or not data.startswith(_MAGIC) or len(data) < len(_MAGIC) + 2:
        raise WireError(name, "an npy image of version 1.0", f"'{array.stype}' of {len(data)} bytes")
    (size,) = struct.unpack_from("<H", data, len(_MAGIC))
    start = len(_MAGIC) + 2 + size
    if size > _MOST_HEADER or start > len(data):
        raise WireError(name, f"an npy image with a header of at most {_MOST_HEADER} bytes", f"{size} bytes")
    told = _header(data[len(_MAGIC) + 2 : start], name)
    found = told["shape"]
    fits = (
        isinstance(found, tuple)
        and len(found) == len(shape)
        and all(type(n) is int and n >= 0 and want in (None, n) for n, want in zip(found, shape, strict=True))
    )
    if told["descr"] != dtype or told["fortran_order"] is not False or not fits:
        want = " x ".join("any" if n is None else str(n) for n in shape)
        raise WireError(name, f"{dtype} of shape {want} in C order", f"{told['descr']} of shape {found}")
    count = 1
    for n in found:
        count *= n
    if len(data) - start != count * np.dtype(dtype).itemsize:
        raise WireError(name, f"{count} numbers of {dtype}, as its header says", f"{len(data) - start} bytes")
    if (array.dtype, array.shape) != (np.dtype(dtype).name, found):
        raise WireError(name, "described as it is", f"'{array.dtype}' of shape {array.shape}")
    # A copy of its own: aligned, and not held together with the whole message.
    return np.frombuffer(data, dtype=dtype, offset=start).reshape(found).copy()


def _header(text: bytes, name: str) -> dict[str, Any]:
    try:
        told = ast.literal_eval(text.decode("latin-1"))
        if isinstance(told, dict) and set(told) == {"descr", "fortran_order", "shape"}:
            return told
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        pass
    raise WireError(name, "an npy image with a header that can be read", "another header")


def about(records: RecordDict, kind: str) -> Mapping[str, Any]:
    """Return the configuration record of a message of ours; another kind or version is a `WireError`."""
    told = records.get(ABOUT)
    if not isinstance(told, ConfigRecord):
        raise WireError("message", f"with a configuration record '{ABOUT}'", "none")
    for name, want in (("version", VERSION), ("kind", kind)):
        if told.get(name) != want or isinstance(told.get(name), bool):
            raise WireError(name, repr(want), repr(told.get(name)))
    return dict(told)


def whole(told: Mapping[str, Any], name: str, least: int = 0) -> int:
    """Return a whole number of a configuration record."""
    value = told.get(name)
    if type(value) is not int or not least <= value <= MOST:
        raise WireError(name, f"a whole number from {least} to {MOST}", repr(value))
    return value


@dataclass(frozen=True)
class News:
    """What a node hears after a round: the head, which all hear, and what became of its own message."""

    number: int
    """The round."""
    head: Head
    taken: bool = False
    """Whether this node's message of the round is in the ledger."""
    refused: str | None = None
    """Why it was refused, if a rule refused it."""


def news_records(news: News) -> RecordDict:
    """Write news, the head in its own number format."""
    head = news.head
    stored = head.weights.astype(_STORED.get(head.precision, "<f8"))
    told: dict[str, Any] = {"version": VERSION, "kind": "head", "round": news.number, "precision": head.precision}
    told |= {"taken": news.taken, "refused": news.refused or ""}
    if head.serial is not None:
        told["serial"] = head.serial
    arrays = {_WEIGHTS: Array(np.ascontiguousarray(stored))}
    return RecordDict({ABOUT: ConfigRecord(told), _HEAD: ArrayRecord(arrays)})


def news_of(records: RecordDict, *, d: int | None = None, c: int | None = None) -> News:
    """Read news."""
    told = about(records, "head")
    precision, refused = told.get("precision"), told.get("refused")
    if not isinstance(precision, str) or not isinstance(refused, str):
        raise WireError("precision, refused", "texts", f"{precision!r}, {refused!r}")
    arrays = _arrays(records, _HEAD, {_WEIGHTS}, {_WEIGHTS})
    weights = as_array(arrays[_WEIGHTS], _WEIGHTS, _STORED.get(precision, "<f8"), (d, c))
    serial = whole(told, "serial", 1) if "serial" in told else None
    try:
        head = Head(weights.astype(np.float64), precision, serial)
    except ValueError as error:
        raise WireError("head", "a valid head", str(error)) from error
    return News(whole(told, "round"), head, bool(told.get("taken")), refused or None)


def update_records(update: Update | None, number: int, *, dense: bool = False) -> RecordDict:
    """Write a node's answer to a turn: its update, or that it changes nothing. A side of zeros is left out.

    A gram of few rows goes as its factor, unless it is to be ``dense``: the factor's product is the gram up to
    roundoff, which a bit-exact ledger does not take.
    """
    told: dict[str, Any] = {"version": VERSION, "kind": "update", "round": number, "change": update is not None}
    if update is None:
        return RecordDict({ABOUT: ConfigRecord(told)})
    told["pairs"] = update.pairs
    arrays: dict[str, NDArray[Any]] = {}
    for side in _SIDES:
        summary = getattr(update, side)
        if not summary.is_zero:
            arrays |= _matrices(side, summary, dense)
    if isinstance(update, Message):
        told |= {"counter": update.counter, "tag": update.tag}
        for side, rows in _ROWS.items():
            batch, counts = getattr(update, rows), getattr(update, f"{rows}_counts")
            if batch is not None:
                arrays |= {f"{side}.features": batch.features, f"{side}.labels": batch.labels.astype("<i8")}
            if counts is not None:
                arrays[f"{side}.counts"] = np.array(counts, dtype="<i8")
    packed = {name: Array(np.ascontiguousarray(array)) for name, array in arrays.items()}
    return RecordDict({ABOUT: ConfigRecord(told), _UPDATE: ArrayRecord(packed)})


def _matrices(side: str, summary: Summary, dense: bool) -> dict[str, NDArray[Any]]:
    named = {f"{side}.moment": summary.moment}
    if dense or summary.factor is None or summary.signs is None:
        return named | {f"{side}.gram": summary.gram}
    named[f"{side}.factor"] = summary.factor
    return named if summary.is_square else named | {f"{side}.signs": summary.signs}


_SUMS = ("gram", "factor", "signs", "moment")
_ATTACHED = ("features", "labels", "counts")


def update_of(records: RecordDict, number: int, *, d: int, c: int) -> Update | None:
    """Read a node's answer to the turn of one round, for a ledger of this size."""
    told = about(records, "update")
    if whole(told, "round", 1) != number:
        raise WireError("round", f"{number}, as it was asked for", repr(told["round"]))
    if type(told.get("change")) is not bool:
        raise WireError("change", "whether there is one", repr(told.get("change")))
    if not told["change"]:
        return None
    arrays = _arrays(records, _UPDATE, {f"{side}.{part}" for side in _SIDES for part in (*_SUMS, *_ATTACHED)}, set())
    try:
        add, delete = (_summary(arrays, side, d, c) for side in _SIDES)
        pairs = whole(told, "pairs", 1)
        plain = not ({"counter", "tag"} & {*told})
        return Update(add, delete, pairs) if plain else Message(add, delete, pairs, **_attached(told, arrays, d, c))
    except WireError:
        raise
    except ValueError as error:
        raise WireError("update", "a valid update", str(error)) from error


def _arrays(records: RecordDict, name: str, known: set[str], needed: set[str]) -> ArrayRecord:
    found = records.get(name, ArrayRecord())
    if not isinstance(found, ArrayRecord):
        raise WireError(name, "an array record", type(found).__name__)
    if (odd := {*found} - known) or (odd := needed - {*found}):
        raise WireError(name, f"of {', '.join(sorted(known))}", ", ".join(sorted(odd)))
    return found


def _summary(arrays: ArrayRecord, side: str, d: int, c: int) -> Summary:
    present = {part for part in _SUMS if f"{side}.{part}" in arrays}
    if not present:
        return Summary.zeros(d, c)
    if present not in ({"gram", "moment"}, {"factor", "moment"}, {"factor", "signs", "moment"}):
        raise WireError(side, "a gram or its factor, with the moment", ", ".join(sorted(present)))
    shapes = {"gram": (d, d), "factor": (None, d), "signs": (None,), "moment": (d, c)}
    found = {part: as_array(arrays[f"{side}.{part}"], f"{side}.{part}", "<f8", shapes[part]) for part in present}
    for matrix in found.values():
        matrix.flags.writeable = False  # ours alone: the summary need not copy it again
    if "gram" in found:
        return Summary(found["gram"], found["moment"])
    return Summary.factored(found["factor"], found["moment"], found.get("signs"))


def _attached(told: Mapping[str, Any], arrays: ArrayRecord, d: int, c: int) -> dict[str, Any]:
    tag = told.get("tag")
    if not isinstance(tag, bytes):
        raise WireError("tag", "bytes", type(tag).__name__)
    found: dict[str, Any] = {"counter": whole(told, "counter"), "tag": tag}
    for side, rows in _ROWS.items():
        features, labels, counts = (arrays.get(f"{side}.{part}") for part in _ATTACHED)
        if (features is None) != (labels is None):
            raise WireError(side, "features with their labels", "one of the two")
        if features is not None and labels is not None:
            found[rows] = Batch(
                as_array(features, f"{side}.features", "<f8", (None, d)),
                as_array(labels, f"{side}.labels", "<i8", (None,)).astype(np.intp),
            )
        if counts is not None:
            found[f"{rows}_counts"] = tuple(int(n) for n in as_array(counts, f"{side}.counts", "<i8", (c,)))
    return found
