"""Decoders on disk: safetensors with the training record in the header, written whole or not at all.

The header carries the SHA-256 of the record and of every tensor. A file is believed only if the hash matches, and used
only if its record is the one that was asked for. Nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load as read_safetensors
from safetensors.numpy import save as safetensors_bytes

from exhume.data.sets import sha256_of_arrays
from exhume.decode._base import Array, Decoder, TrainingRecord
from exhume.decode.decoders import build
from exhume.errors import DataError, InputError
from exhume.files import atomic_file

__all__ = ["load", "read_arrays", "save", "write_arrays"]

FORMAT = "exhume decoder 1"
HEADER = "exhume"


def save(decoder: Decoder, path: Path) -> None:
    """Write a fitted decoder to a file.

    Raises
    ------
    InputError
        If it was not fitted.
    """
    if decoder.record is None:
        raise InputError("decoder", "one that was fitted or loaded", f"a fresh {decoder.name} decoder")
    write_arrays(path, decoder.state, asdict(decoder.record))


def load(path: Path, *, decoder: str | None = None, encoder: str | None = None, data: str | None = None) -> Decoder:
    """Return the decoder in a file.

    Parameters
    ----------
    path : path
        A file that `save` wrote.
    decoder, encoder, data : str, optional
        What its record must say: the decoder's name, the encoder's, the hash of the training data.

    Raises
    ------
    DataError
        If the file is missing, damaged, or of another training record.
    """
    arrays, facts = read_arrays(path)
    record = _record(path, facts)
    for field, wanted in (("decoder", decoder), ("encoder", encoder), ("data", data)):
        if wanted is not None and getattr(record, field) != wanted:
            raise DataError(
                f"{path} is of another training record: its {field} is {getattr(record, field)}, not {wanted}"
            )
    # Only what decides the weights is taken from a file: a device or a folder is the reader's own choice.
    if set(record.options) != build(record.decoder).option_names:
        named = ", ".join(record.options) or "none"
        raise DataError(f"{path} holds no {record.decoder} decoder's training record: its options are {named}")
    found = build(record.decoder, **record.options)
    found.state, found.record = arrays, record
    return found


def _record(path: Path, facts: Mapping[str, Any]) -> TrainingRecord:
    """Return the training record that the facts of a file are, if they are one."""
    try:
        shape = tuple(int(side) for side in facts["shape"])
        history = tuple((int(step), float(loss)) for step, loss in facts["history"])
        record = TrainingRecord(**{**facts, "shape": shape, "history": history, "options": dict(facts["options"])})
        counts, names = (record.rows, record.dim, record.seed, record.steps), (record.decoder, record.encoder)
        if not all(isinstance(n, int) for n in counts) or not all(isinstance(n, str) for n in names):
            raise ValueError(f"{counts} must be whole numbers, {names} names")
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(f"{path} holds no decoder's training record: {error}") from error
    return record


def write_arrays(path: Path, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> None:
    """Write named arrays and facts about them as one safetensors file, whole or not at all."""
    header = json.dumps(facts, sort_keys=True)
    content = safetensors_bytes(dict(arrays), {"format": FORMAT, HEADER: header, "sha256": _digest(arrays, header)})
    with atomic_file(path) as stream:
        stream.write(_sorted(content))


def _sorted(content: bytes) -> bytes:
    """Return a safetensors file with its header in one order: equal arrays and facts are then equal files."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[end:]


def read_arrays(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the named arrays and facts in a file, once their hash has matched.

    Raises
    ------
    DataError
        If the file is missing, damaged or not one of ours.
    """
    try:
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        header, stated = metadata[HEADER], metadata["sha256"]
        if metadata["format"] != FORMAT:
            raise ValueError(f"its format is {metadata['format']}")
        arrays = read_safetensors(content)
        facts = json.loads(header)
    except OSError as error:
        raise DataError(f"{path} cannot be read as a decoder: {error.strerror or error}") from error
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as a decoder: {error}") from error
    if _digest(arrays, header) != stated:
        raise DataError(f"{path} is damaged: its tensors or record do not have the hash in its header")
    return arrays, dict(facts)


def _digest(arrays: Mapping[str, Array], header: str) -> str:
    names = sorted(arrays)
    digest = hashlib.sha256(header.encode())
    digest.update(json.dumps(names).encode())
    digest.update(sha256_of_arrays(*(arrays[name] for name in names)).encode())
    return digest.hexdigest()
