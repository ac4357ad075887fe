"""Saved states of defences: safetensors bytes that name the defence and its whole configuration, under one checksum.

The checksum finds accidents, not forgers: who can write a state can write its checksum.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from exhume.errors import InputError

__all__ = ["Saved", "nested", "pack", "unpack"]

_VERSION = 2
_MOST_HEADER = 1 << 26
_VALUES = ".values"


@dataclass(frozen=True)
class Saved:
    """What `unpack` found: plain values, and arrays by name."""

    values: dict[str, Any]
    arrays: dict[str, NDArray[np.float64]]


def pack(
    name: str, configuration: Mapping[str, Any], values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float64]]
) -> bytes:
    """Write the state of the defence ``name`` as it was configured."""
    # Plain values grow with clients and rows, and the header must stay short: they are an array of their own.
    plain = nested(json.dumps(dict(values), sort_keys=True).encode())
    whole = {key: np.ascontiguousarray(value) for key, value in arrays.items()} | {_VALUES: plain}
    header = {
        "format": "exhume-defence",
        "version": str(_VERSION),
        "name": name,
        "configuration": json.dumps(dict(configuration), sort_keys=True),
    }
    made = bytes(save(whole, metadata=header | {"sha256": _digest(header, whole)}))
    if struct.unpack_from("<Q", made)[0] > _MOST_HEADER:
        raise InputError(f"state of {name}", f"of at most {_MOST_HEADER} bytes of array names", f"{len(whole)} arrays")
    return made


def nested(state: bytes) -> NDArray[Any]:
    """Return bytes as an array, to be one part of a larger state."""
    return np.frombuffer(state, dtype=np.uint8)


def unpack(data: bytes, name: str, configuration: Mapping[str, Any]) -> Saved:
    """Read a state; one of another defence, or of this one configured otherwise, is refused by name."""
    try:
        (size,) = struct.unpack_from("<Q", data)
        if size > min(_MOST_HEADER, len(data) - 8):
            raise ValueError(f"a header of {size} bytes in {len(data)}")
        header = json.loads(data[8 : 8 + size])["__metadata__"]
        if (header.get("format"), header.get("version")) != ("exhume-defence", str(_VERSION)):
            raise ValueError(f"format {header.get('format')}, version {header.get('version')}")
        arrays = load(data)
        if header.pop("sha256", None) != _digest(header, arrays):
            raise ValueError("it is damaged: its checksum is another")
        theirs, values = json.loads(header["configuration"]), json.loads(arrays.pop(_VALUES).tobytes())
        if not (isinstance(theirs, dict) and isinstance(values, dict)):
            raise ValueError("a header that is not made of tables")
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise InputError("state", "the saved state of a defence", f"something else ({error})") from error
    if header.get("name") != name:
        raise InputError("state", f"that of '{name}'", f"that of '{header.get('name')}'")
    ours = json.loads(json.dumps(dict(configuration)))
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            raise InputError(f"state of {name}: {key}", repr(ours.get(key)), repr(theirs.get(key)))
    return Saved(values, arrays)


def _digest(header: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(json.dumps(dict(header), sort_keys=True).encode())
    for key in sorted(arrays):
        digest.update(json.dumps([key, arrays[key].dtype.str, list(arrays[key].shape)]).encode())
        digest.update(arrays[key].tobytes())
    return digest.hexdigest()
