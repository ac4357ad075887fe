"""The wire format: safetensors bytes for updates and heads, never pickle.

The safetensors header binds what the matrices mean: format version, kind, d, c, gamma where the sender states it, and
the number format. A receiver passes what it expects; anything else is a `WireError` before a matrix is looked at. Each
field has one spelling, and a field that is not known is refused: what a sender meant by it could be what matters.

An update with attachments (`Message`) is version 2; a plain one is version 1, as it always was. A reader that knows no
attachments refuses version 2 instead of reading an update without its tag. Where a side of an update is known by a
factor of few rows, that goes instead of the gram: version 3, with attachments or without.
"""

from __future__ import annotations

import json
import re
import struct
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from exhume.errors import WireError
from exhume.protocol.head import Head
from exhume.protocol.message import MOST, MOST_TAG, Batch, Message
from exhume.protocol.summary import Summary, Update

__all__ = ["ATTACHED", "FACTORED", "VERSION", "Data", "decode_head", "decode_update", "encode_head", "encode_update"]

Data = bytes | bytearray | memoryview
"""What a message is read from."""

VERSION = "1"
ATTACHED = "2"
"""The version of an update with attachments."""
FACTORED = "3"
"""The version of an update of which a gram is sent as its factor, with attachments or without."""

_SIDES = ("added", "deleted")
_ATTACHMENTS = tuple(f"{side}.{part}" for side in _SIDES for part in ("features", "labels", "counts"))
_FIELDS = {"format", "version", "kind", "d", "c", "dtype", "gamma"}
_UPDATE_FIELDS = _FIELDS | {"pairs"}
_MESSAGE_FIELDS = {"counter", "tag"}
_STORED = {"float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": np.float32}
_MOST_HEADER = 1 << 20


def encode_update(update: Update, *, gamma: float | None = None) -> bytes:
    """Write an update; ``gamma`` is the coefficient the client believes in, if it knows one."""
    tensors = {**_tensors("add", update.add), **_tensors("delete", update.delete)}
    header = _header("update", update.d, update.c, gamma, "float64") | {"pairs": str(update.pairs)}
    if isinstance(update, Message) and not update.bare:
        header["version"] = ATTACHED
        if update.counter:
            header["counter"] = str(update.counter)
        if update.tag:
            header["tag"] = update.tag.hex()
        for side in _SIDES:
            batch, counts = getattr(update, side), getattr(update, f"{side}_counts")
            if batch is not None:
                tensors |= {f"{side}.features": batch.features, f"{side}.labels": batch.labels.astype(np.int64)}
            if counts is not None:
                tensors[f"{side}.counts"] = np.array(counts, dtype=np.int64)
    if not {"add.gram", "delete.gram"} <= {*tensors}:
        header["version"] = FACTORED
    return bytes(save({k: np.ascontiguousarray(v) for k, v in tensors.items()}, metadata=header))


def _tensors(side: str, summary: Summary) -> dict[str, np.ndarray]:
    """Return the matrices of one side; the signs of a factor only where there is a minus."""
    named = {f"{side}.moment": summary.moment}
    if summary.factor is None or summary.signs is None:
        return named | {f"{side}.gram": summary.gram}
    named[f"{side}.factor"] = summary.factor
    return named if summary.is_square else named | {f"{side}.signs": summary.signs}


def decode_update(data: Data, *, d: int | None = None, c: int | None = None, gamma: float | None = None) -> Update:
    """Read an update, a `Message` where something is attached; d, c and gamma, where given, must be the sender's."""
    header, tensors = _open(data, "update", d, c, gamma, (VERSION, ATTACHED, FACTORED))
    _known_fields(header, _UPDATE_FIELDS | _MESSAGE_FIELDS)
    if header.get("dtype") != "float64":
        raise WireError("dtype", "'float64'", f"'{header.get('dtype')}'")
    attached = {name: tensors.pop(name) for name in _ATTACHMENTS if name in tensors}
    forms = {side: "factor" if f"{side}.factor" in tensors else "gram" for side in ("add", "delete")}
    signs = [f"{side}.signs" for side, form in forms.items() if form == "factor" and f"{side}.signs" in tensors]
    _expect("update", tensors, (*(f"{s}.{part}" for s, form in forms.items() for part in (form, "moment")), *signs))
    _check_version(header, bool(_MESSAGE_FIELDS & {*header} or attached), "factor" in forms.values())
    try:
        add, delete = (_summary(side, form, tensors) for side, form in forms.items())
        pairs = _whole(header, "pairs", 1)
        if attached or _MESSAGE_FIELDS & {*header}:
            update: Update = Message(add, delete, pairs, **_attachments(header, attached))
        else:
            update = Update(add, delete, pairs)
    except WireError:
        raise
    except ValueError as error:
        raise WireError("update", "a valid update", str(error)) from error
    _same_size(header, update.d, update.c)
    return update


def _check_version(header: dict[str, str], told: bool, factored: bool) -> None:
    """Refuse an update under the version of another kind: each has one spelling."""
    right = FACTORED if factored else ATTACHED if told else VERSION
    if header["version"] != right:
        allowed = f"'{FACTORED}' with a factor, else '{ATTACHED}' with attachments, else '{VERSION}'"
        raise WireError("version", allowed, f"'{header['version']}'")


def _summary(side: str, form: str, tensors: dict[str, np.ndarray]) -> Summary:
    moment = tensors[f"{side}.moment"]
    if form == "gram":
        return Summary(tensors[f"{side}.gram"], moment)
    signs = tensors.get(f"{side}.signs")
    if signs is not None and (signs.dtype != np.float64 or not (signs < 0).any()):
        raise WireError(f"{side}.signs", "of float64 with a minus, or left out", f"{signs.dtype} without one")
    return Summary.factored(tensors[f"{side}.factor"], moment, signs)


def _attachments(header: dict[str, str], tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return what is attached, by the names that a `Message` has for it."""
    tag = header.get("tag", "")
    if "tag" in header and not re.fullmatch(f"([0-9a-f]{{2}}){{1,{MOST_TAG}}}", tag):
        raise WireError("tag", f"1 to {MOST_TAG} bytes in lower-case hexadecimal digits", f"{len(tag)} characters")
    found: dict[str, Any] = {"counter": _whole(header, "counter", 0), "tag": bytes.fromhex(tag)}
    for side in _SIDES:
        rows, labels, counts = (tensors.get(f"{side}.{part}") for part in ("features", "labels", "counts"))
        for name, array, kind in (
            ("features", rows, np.float64),
            ("labels", labels, np.int64),
            ("counts", counts, np.int64),
        ):
            if array is not None and array.dtype != kind:
                raise WireError(f"{side}.{name}", f"of {np.dtype(kind).name}", str(array.dtype))
        if (rows is None) != (labels is None):
            raise WireError(side, "features with their labels", "one of the two")
        if rows is not None and labels is not None:
            found[side] = Batch(rows, labels.astype(np.intp))
        if counts is not None:
            if counts.ndim != 1:
                raise WireError(f"{side}.counts", "one number per class", f"shape {counts.shape}")
            found[f"{side}_counts"] = tuple(int(n) for n in counts)
    return found


def encode_head(head: Head, *, gamma: float | None = None) -> bytes:
    """Write a head in its own number format (bfloat16 and odd bit counts in the next wider one)."""
    stored = head.weights.astype(_STORED.get(head.precision, np.float64))
    header = _header("head", head.d, head.c, gamma, head.precision)
    if head.serial is not None:
        header["serial"] = str(head.serial)
    return bytes(save({"weights": np.ascontiguousarray(stored)}, metadata=header))


def decode_head(data: Data, *, d: int | None = None, c: int | None = None, gamma: float | None = None) -> Head:
    """Read a head; d, c and gamma, where given, must be the sender's."""
    header, tensors = _open(data, "head", d, c, gamma)
    _known_fields(header, _FIELDS | {"serial"})
    _expect("head", tensors, ("weights",))
    precision = header.get("dtype", "")
    weights = tensors["weights"]
    if weights.dtype != _STORED.get(precision, np.float64) or weights.ndim != 2:
        raise WireError("weights", f"a matrix as {precision} is stored", f"{weights.dtype} of shape {weights.shape}")
    try:
        serial = _whole(header, "serial", 1) if "serial" in header else None
        head = Head(weights.astype(np.float64), precision, serial)
    except WireError:
        raise
    except ValueError as error:
        raise WireError("head", "a valid head", str(error)) from error
    _same_size(header, head.d, head.c)
    return head


def _header(kind: str, d: int, c: int, gamma: float | None, dtype: str) -> dict[str, str]:
    header = {"format": "exhume", "version": VERSION, "kind": kind, "d": str(d), "c": str(c), "dtype": dtype}
    return header if gamma is None else header | {"gamma": repr(float(gamma))}


def _open(
    data: Data, kind: str, d: int | None, c: int | None, gamma: float | None, versions: tuple[str, ...] = (VERSION,)
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    if not isinstance(data, Data):
        raise WireError("message", "bytes, bytearray or memoryview", type(data).__name__)
    data = bytes(data)  # one copy of what may be written to, none of bytes
    header = _metadata(data)
    for name, known in (("format", ("exhume",)), ("version", versions), ("kind", (kind,))):
        if header.get(name) not in known:
            raise WireError(name, " or ".join(f"'{want}'" for want in known), f"'{header.get(name)}'")
    wanted = {"d": d, "c": c, "gamma": None if gamma is None else repr(float(gamma))}
    for name, value in wanted.items():
        # A client that does not know gamma leaves it out; one that states another is refused.
        if value is not None and header.get(name, str(value) if name == "gamma" else None) != str(value):
            raise WireError(name, str(value), header.get(name, "nothing"))
    _check_gamma(header.get("gamma"))
    try:
        return header, load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise WireError("message", "safetensors bytes", f"bytes that do not parse ({error})") from error


def _metadata(data: bytes) -> dict[str, str]:
    try:
        (size,) = struct.unpack_from("<Q", data)
        if size > min(_MOST_HEADER, len(data) - 8):
            raise ValueError(f"a header of {size} bytes in a message of {len(data)}")
        found = json.loads(data[8 : 8 + size], object_pairs_hook=_once)["__metadata__"]
        if not all(isinstance(value, str) for value in found.values()):
            raise ValueError("a header field that is not text")
        return dict(found)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WireError("message", "safetensors bytes with an exhume header", f"something else ({error})") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a table in which no name comes twice: two readers could take two values."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name that comes twice in the header")
    return table


def _known_fields(header: dict[str, str], known: set[str]) -> None:
    if odd := {*header} - known:
        raise WireError("header", f"of {', '.join(sorted(known))}", ", ".join(sorted(odd)))


def _check_gamma(text: str | None) -> None:
    """Refuse a ridge coefficient that is not the one spelling of a finite number above 0."""
    try:
        fine = text is None or (repr(float(text)) == text and 0 < float(text) < float("inf"))
    except ValueError:
        fine = False
    if not fine:
        raise WireError("gamma", "a finite number above 0 as Python writes it", f"'{text}'")


def _expect(kind: str, tensors: dict[str, np.ndarray], names: tuple[str, ...]) -> None:
    if set(tensors) != set(names):
        raise WireError(kind, f"the tensors {', '.join(names)}", ", ".join(sorted(tensors)) or "none")


def _whole(header: dict[str, str], name: str, default: int) -> int:
    """Return a whole number from 1 to `MOST`, or the default where there is none."""
    text = header.get(name)
    if text is None:
        return default
    if not re.fullmatch("[0-9]{1,19}", text) or not 1 <= int(text) <= MOST:
        raise WireError(name, f"a whole number from 1 to {MOST}", f"'{text}'")
    return int(text)


def _same_size(header: dict[str, str], d: int, c: int) -> None:
    if (header.get("d"), header.get("c")) != (str(d), str(c)):
        raise WireError("d, c", f"as the matrices are ({d}, {c})", f"({header.get('d')}, {header.get('c')})")
