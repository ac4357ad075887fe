"""A whole server in one file: totals, what the defences remember, counts and the public head.

The file is as secret as the ledger: it is written for its owner's eyes only, and replaces the old one in one step, so
that a crash leaves the old or the new file whole.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from exhume.defence._state import nested, pack, unpack
from exhume.defence.config import Config, build
from exhume.defence.config import load as load_config
from exhume.defence.defences import Defences
from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Counts
from exhume.protocol.server import Server
from exhume.protocol.summary import Summary

__all__ = ["load_server", "save_server"]


def save_server(server: Server, path: str | Path) -> None:
    """Write a server to a file that only its owner can read; a rule that cannot be saved is an error by name."""
    total, head = server.ledger.summary, server.released
    arrays = {"gram": total.gram, "moment": total.moment, "defences": nested(Defences.of(server).save())}
    values: dict[str, Any] = {"gamma": server.ledger.gamma, "grid": server.ledger.grid, "counts": asdict(server.counts)}
    values["head"] = None
    if head is not None:
        arrays["head"] = head.weights
        values["head"] = {"precision": head.precision, "serial": head.serial}
    _replace(Path(path), pack("server", {}, values, arrays))


def load_server(config: Config | str | Path, path: str | Path) -> Server:
    """Return the server that was saved, behind the defences of a configuration, or of the file that holds it.

    A file of other defences is refused by name. A key that the configuration gives is not used: the saved one is.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError("server", "a file that can be read", f"'{path}' ({error.strerror})") from None
    saved = unpack(data, "server", {})
    values, arrays = saved.values, saved.arrays
    try:
        ledger = Ledger(Summary.kept(arrays["gram"], arrays["moment"]), values["gamma"], values["grid"])
        told = values["head"]
        head = None if told is None else Head(arrays["head"], told["precision"], told["serial"])
        counts = Counts(**values["counts"])
        defences = arrays["defences"].tobytes()
    except (KeyError, TypeError) as error:
        raise InputError("server", "a file that this version can read", repr(error)) from error
    made = build(config if isinstance(config, Config) else load_config(config), ledger)
    server = made.server(ledger)
    Defences.of(server).load(defences)
    server.resume(counts, head)
    return server


def _replace(path: Path, data: bytes) -> None:
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # made with mode 0600
    except OSError as error:
        raise InputError("path", "in a folder that can be written", f"'{path}' ({error.strerror})") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
