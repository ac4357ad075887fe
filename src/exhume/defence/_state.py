"""Saved states of defences: safetensors bytes whose header names the defence and its whole configuration."""

from __future__ import annotations

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

__all__ = ["Saved", "pack", "unpack"]

_VERSION = 1
_MOST_HEADER = 1 << 26


@dataclass(frozen=True)
class Saved:
    """What `unpack` found: plain values, and arrays by name."""

    values: dict[str, Any]
    arrays: dict[str, NDArray[np.float64]]


def pack(
    name: str, configuration: Mapping[str, Any], values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float64]]
) -> bytes:
    """Write the state of the defence ``name`` as it was configured."""
    header = {
        "format": "exhume-defence",
        "version": str(_VERSION),
        "name": name,
        "configuration": json.dumps(dict(configuration), sort_keys=True),
        "values": json.dumps(dict(values), sort_keys=True),
    }
    return bytes(save({key: np.ascontiguousarray(value) for key, value in arrays.items()}, metadata=header))


def unpack(data: bytes, name: str, configuration: Mapping[str, Any]) -> Saved:
    """Read a state; one of another defence, or of this one configured otherwise, is refused by name."""
    try:
        (size,) = struct.unpack_from("<Q", data)
        if size > min(_MOST_HEADER, len(data) - 8):
            raise ValueError(f"a header of {size} bytes in {len(data)}")
        header = json.loads(data[8 : 8 + size])["__metadata__"]
        if (header.get("format"), header.get("version")) != ("exhume-defence", str(_VERSION)):
            raise ValueError(f"format {header.get('format')}, version {header.get('version')}")
        theirs, values = json.loads(header["configuration"]), json.loads(header["values"])
        if not (isinstance(theirs, dict) and isinstance(values, dict)):
            raise ValueError("a header that is not made of tables")
        arrays = load(data)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise InputError("state", "the saved state of a defence", f"something else ({error})") from error
    if header.get("name") != name:
        raise InputError("state", f"that of '{name}'", f"that of '{header.get('name')}'")
    ours = json.loads(json.dumps(dict(configuration)))
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            raise InputError(f"state of {name}: {key}", repr(ours.get(key)), repr(theirs.get(key)))
    return Saved(values, arrays)
