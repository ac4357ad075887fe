"""The wire format: safetensors bytes for updates and heads, never pickle.

The safetensors header binds what the matrices mean: format version, kind, d, c, gamma where the sender states it, and
the number format. A receiver passes what it expects; anything else is a `WireError` before a matrix is looked at.
"""

from __future__ import annotations

import json
import struct

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from exhume.errors import WireError
from exhume.protocol.head import Head
from exhume.protocol.summary import Summary, Update

__all__ = ["VERSION", "decode_head", "decode_update", "encode_head", "encode_update"]

VERSION = "1"
_STORED = {"float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": np.float32}
_MOST_HEADER = 1 << 20


def encode_update(update: Update, *, gamma: float | None = None) -> bytes:
    """Write an update; ``gamma`` is the coefficient the client believes in, if it knows one."""
    tensors = {
        "add.gram": update.add.gram,
        "add.moment": update.add.moment,
        "delete.gram": update.delete.gram,
        "delete.moment": update.delete.moment,
    }
    header = _header("update", update.d, update.c, gamma, "float64") | {"pairs": str(update.pairs)}
    return bytes(save({k: np.ascontiguousarray(v) for k, v in tensors.items()}, metadata=header))


def decode_update(data: bytes, *, d: int | None = None, c: int | None = None, gamma: float | None = None) -> Update:
    """Read an update; d, c and gamma, where given, must be the sender's."""
    header, tensors = _open(data, "update", d, c, gamma)
    _expect("update", tensors, ("add.gram", "add.moment", "delete.gram", "delete.moment"))
    try:
        update = Update(
            Summary(tensors["add.gram"], tensors["add.moment"]),
            Summary(tensors["delete.gram"], tensors["delete.moment"]),
            int(header.get("pairs", "1")),
        )
    except ValueError as error:
        raise WireError("update", "a valid update", str(error)) from error
    _same_size(header, update.d, update.c)
    return update


def encode_head(head: Head, *, gamma: float | None = None) -> bytes:
    """Write a head in its own number format (bfloat16 and odd bit counts in the next wider one)."""
    stored = head.weights.astype(_STORED.get(head.precision, np.float64))
    header = _header("head", head.d, head.c, gamma, head.precision)
    if head.serial is not None:
        header["serial"] = str(head.serial)
    return bytes(save({"weights": np.ascontiguousarray(stored)}, metadata=header))


def decode_head(data: bytes, *, d: int | None = None, c: int | None = None, gamma: float | None = None) -> Head:
    """Read a head; d, c and gamma, where given, must be the sender's."""
    header, tensors = _open(data, "head", d, c, gamma)
    _expect("head", tensors, ("weights",))
    precision = header.get("dtype", "")
    weights = tensors["weights"]
    if weights.dtype != _STORED.get(precision, np.float64) or weights.ndim != 2:
        raise WireError("weights", f"a matrix as {precision} is stored", f"{weights.dtype} of shape {weights.shape}")
    try:
        serial = int(header["serial"]) if "serial" in header else None
        head = Head(weights.astype(np.float64), precision, serial)
    except ValueError as error:
        raise WireError("head", "a valid head", str(error)) from error
    _same_size(header, head.d, head.c)
    return head


def _header(kind: str, d: int, c: int, gamma: float | None, dtype: str) -> dict[str, str]:
    header = {"format": "exhume", "version": VERSION, "kind": kind, "d": str(d), "c": str(c), "dtype": dtype}
    return header if gamma is None else header | {"gamma": repr(float(gamma))}


def _open(
    data: bytes, kind: str, d: int | None, c: int | None, gamma: float | None
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    header = _metadata(data)
    for name, want in (("format", "exhume"), ("version", VERSION), ("kind", kind)):
        if header.get(name) != want:
            raise WireError(name, f"'{want}'", f"'{header.get(name)}'")
    wanted = {"d": d, "c": c, "gamma": None if gamma is None else repr(float(gamma))}
    for name, value in wanted.items():
        # A client that does not know gamma leaves it out; one that states another is refused.
        if value is not None and header.get(name, str(value) if name == "gamma" else None) != str(value):
            raise WireError(name, str(value), header.get(name, "nothing"))
    try:
        return header, load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise WireError("message", "safetensors bytes", f"bytes that do not parse ({error})") from error


def _metadata(data: bytes) -> dict[str, str]:
    try:
        (size,) = struct.unpack_from("<Q", data)
        if size > min(_MOST_HEADER, len(data) - 8):
            raise ValueError(f"a header of {size} bytes in a message of {len(data)}")
        found = json.loads(data[8 : 8 + size])["__metadata__"]
        return {str(k): str(v) for k, v in found.items()}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WireError("message", "safetensors bytes with an exhume header", f"something else ({error})") from error


def _expect(kind: str, tensors: dict[str, np.ndarray], names: tuple[str, ...]) -> None:
    if set(tensors) != set(names):
        raise WireError(kind, f"the tensors {', '.join(names)}", ", ".join(sorted(tensors)) or "none")


def _same_size(header: dict[str, str], d: int, c: int) -> None:
    if (header.get("d"), header.get("c")) != (str(d), str(c)):
        raise WireError("d, c", f"as the matrices are ({d}, {c})", f"({header.get('d')}, {header.get('c')})")
