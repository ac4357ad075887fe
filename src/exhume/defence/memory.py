"""What a defence remembers, and how it is saved: one interface for rules, chains, accountants and whole servers.

A saved state is safetensors bytes that name the defence and its configuration, under one checksum. The checksum finds
accidents, not forgers: who can write a state can write its checksum. A state holds secrets: keep it as the ledger.
"""

from __future__ import annotations

import copy
import hashlib
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from exhume.errors import InputError
from exhume.options import HIDDEN, is_secret
from exhume.protocol.rules import Undo, keep

__all__ = ["Memory", "Saveable", "client_names", "keep_entries", "nested", "pack", "shown", "unpack"]

_VERSION = 3
_MOST_HEADER = 1 << 26
_VALUES = ".values"


@dataclass(frozen=True)
class Memory:
    """What a defence remembers: plain values (as JSON has them), and arrays by name."""

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class Saveable:
    """What remembers something that outlives the process.

    A rule says what it remembers (`remembered`), takes it over again (`restore`), and says which of its arguments a
    saved state must agree with (`configuration`); `save`, `load` and a repr that shows no secret follow from these.

    What it remembers is replaced, or added to and taken from lists, sets and tables; then a `checkpoint` copies these
    and shares the things in them. A rule that changes the things themselves has a checkpoint of its own.
    """

    name: ClassVar[str] = ""

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments that a saved state must agree with, as plain values; no secrets."""
        return {}

    def remembered(self) -> Memory:
        """Return what is remembered, secrets included."""
        return Memory()

    def restore(self, memory: Memory) -> None:
        """Take over what `remembered` returned."""

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Keep the lists, sets and tables of the memory, not the things in them."""
        return keep(self, **{name: _held(value) for name, value in self.__dict__.items()})

    def save(self) -> bytes:
        """Write name, configuration and memory."""
        return pack(self.name, self.configuration(), self.remembered())

    def load(self, data: bytes) -> None:
        """Take over a saved memory; one of another defence or configuration is refused by name."""
        self.restore(unpack(data, self.name, self.configuration()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in shown(self.configuration()).items())})"


def keep_entries(table: dict[str, Any], clients: Sequence[str]) -> Undo:
    """Return what gives these clients their entries of a table back: entries that are replaced, never changed."""
    kept = {client: table[client] for client in clients if client in table}

    def undo() -> None:
        table.update(kept)  # first, so that the order of the table stays
        for client in clients:
            if client not in kept:
                table.pop(client, None)

    return undo


def _held(value: Any) -> Any:
    """Return a copy of a list, set, table, array or what knows how to copy itself; the things in them are shared."""
    made = copy.copy(value) if isinstance(value, (list, set, dict)) or hasattr(type(value), "__copy__") else value
    if isinstance(made, dict):
        made.update(
            (key, _held(item)) for key, item in value.items() if isinstance(item, (dict, list, set, np.ndarray))
        )
    return made


def shown(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without the secrets among them."""
    return {name: value for name, value in options.items() if not is_secret(name)}


def client_names(clients: Iterable[str]) -> list[str]:
    """Return the names of clients for a saved state; what is no text would come back as something else."""
    found = list(clients)
    for client in found:
        if not isinstance(client, str):
            raise InputError("client", "a name that is text, to be saved", repr(client))
    return found


def pack(name: str, configuration: Mapping[str, Any], memory: Memory) -> bytes:
    """Write the state of the defence ``name`` as it was configured."""
    # Plain values grow with clients and rows, and the header must stay short: they are an array of their own.
    plain = nested(_as_json(memory.values).encode())
    whole = {key: np.ascontiguousarray(value) for key, value in memory.arrays.items()} | {_VALUES: plain}
    header = {
        "format": "exhume-defence",
        "version": str(_VERSION),
        "name": name,
        "configuration": _as_json(configuration),
    }
    made = bytes(save(whole, metadata=header | {"sha256": _digest(header, whole)}))
    if struct.unpack_from("<Q", made)[0] > _MOST_HEADER:
        raise InputError(f"state of {name}", f"of at most {_MOST_HEADER} bytes of array names", f"{len(whole)} arrays")
    return made


def nested(state: bytes) -> NDArray[Any]:
    """Return bytes as an array, to be one part of a larger state."""
    return np.frombuffer(state, dtype=np.uint8)


def unpack(data: bytes, name: str, configuration: Mapping[str, Any]) -> Memory:
    """Read a state; one of another defence, or of this one configured otherwise, is refused by name."""
    try:
        (size,) = struct.unpack_from("<Q", data)
        if size > min(_MOST_HEADER, len(data) - 8):
            raise ValueError(f"a header of {size} bytes in {len(data)}")
        header = json.loads(data[8 : 8 + size])["__metadata__"]
        if (header.get("format"), header.get("version")) != ("exhume-defence", str(_VERSION)):
            raise ValueError(f"format {header.get('format')}, version {header.get('version')}, not {_VERSION}")
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
    ours = json.loads(_as_json(configuration))
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            told = ("that of the state", HIDDEN) if is_secret(key) else (repr(ours.get(key)), repr(theirs.get(key)))
            raise InputError(f"state of {name}: {key}", *told)
    return Memory(values, arrays)


def _as_json(values: Mapping[str, Any]) -> str:
    _refuse_odd_keys(values)
    return json.dumps(dict(values), sort_keys=True)


def _refuse_odd_keys(value: Any) -> None:
    """Refuse names that are not text: JSON would write them as text, and another name would come back."""
    if isinstance(value, Mapping):
        client_names(value)
    for part in value.values() if isinstance(value, Mapping) else value:
        if isinstance(part, (Mapping, list, tuple)):
            _refuse_odd_keys(part)


def _digest(header: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(json.dumps(dict(header), sort_keys=True).encode())
    for key in sorted(arrays):
        digest.update(json.dumps([key, arrays[key].dtype.str, list(arrays[key].shape)]).encode())
        digest.update(arrays[key].tobytes())
    return digest.hexdigest()
