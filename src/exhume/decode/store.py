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
    try:
        record = TrainingRecord(
            **{
                **facts,
                "shape": tuple(facts["shape"]),
                "history": tuple((int(step), float(loss)) for step, loss in facts["history"]),
            }
        )
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(f"{path} holds no decoder's training record: {error}") from error
    for field, wanted in (("decoder", decoder), ("encoder", encoder), ("data", data)):
        if wanted is not None and getattr(record, field) != wanted:
            raise DataError(
                f"{path} is of another training record: its {field} is {getattr(record, field)}, not {wanted}"
            )
    found = build(record.decoder, **record.options)
    found.state, found.record = arrays, record
    return found


def write_arrays(path: Path, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> None:
    """Write named arrays and facts about them as one safetensors file, whole or not at all."""
    header = json.dumps(facts, sort_keys=True)
    content = safetensors_bytes(dict(arrays), {"format": FORMAT, HEADER: header, "sha256": _digest(arrays, header)})
    with atomic_file(path) as stream:
        stream.write(content)


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
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
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
