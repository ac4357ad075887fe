"""A whole server in one file: totals, what the defences remember, counts and the public head.

The file is as secret as the ledger: it is written for its owner's eyes only, and replaces the old one in one step, so
that a crash leaves the old or the new file whole. Two processes may read one file; the second to save is refused.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from exhume.defence.config import Config, build
from exhume.defence.config import load as load_config
from exhume.defence.defences import Defences
from exhume.defence.memory import Memory, nested, pack, unpack
from exhume.errors import InputError, StaleServerError
from exhume.files import PRIVATE, atomic_file, held, remove_stale
from exhume.protocol.drift import Lost
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Counts
from exhume.protocol.server import Server
from exhume.protocol.summary import Summary

__all__ = ["load_server", "save_server"]

_SEEN: WeakKeyDictionary[Server, dict[Path, bytes]] = WeakKeyDictionary()
"""The digest of each file's content as a server last read or wrote it."""


def save_server(server: Server, path: str | Path, *, replace: bool = False) -> None:
    """Write a server to a file that only its owner can read; a rule that cannot be saved is an error by name.

    Parameters
    ----------
    server
        The server. Threads may use it meanwhile: the file holds a finished step.
    path
        The file. What killed processes left of earlier saves beside it is removed.
    replace
        Whether to overwrite a file that this server neither read nor wrote last.

    Raises
    ------
    StaleServerError
        If somebody else has saved to the file since: what they accepted would be lost. Nothing is written.
    """
    file = Path(path)
    with server.paused():  # what is saved belongs to one step
        ledger, head, counts = server.ledger, server.released, server.counts
        ledger.settle()  # no row goes to the disk as it came
        total, lost = ledger.summary, ledger.lost
        defences = nested(Defences.of(server).save())
    arrays = {"gram": total.gram, "moment": total.moment, "defences": defences}
    values: dict[str, Any] = {"gamma": ledger.gamma, "grid": ledger.grid, "counts": asdict(counts)}
    values["solver"] = ledger.solver
    values |= {"lost": asdict(lost), "head": None}
    if head is not None:
        arrays["head"] = head.weights
        values["head"] = {"precision": head.precision, "serial": head.serial}
    data = pack("server", {}, Memory(values, arrays))
    if not file.parent.is_dir():
        raise InputError("path", "in a folder that can be written", f"'{path}' (no such folder)")
    try:
        with held(file.parent):
            if not replace and _differs(server, file):
                raise StaleServerError(path)
            remove_stale(file)
            with atomic_file(file, PRIVATE) as stream:
                stream.write(data)
            _note(server, file, data)
    except PermissionError as error:
        raise InputError("path", "in a folder that can be written", f"'{path}' ({error.strerror})") from None


def load_server(config: Config | str | Path, path: str | Path) -> Server:
    """Return the server that was saved, behind the defences of a configuration, or of the file that holds it.

    A file of other defences is refused by name. A key that the configuration gives is not used: the saved one is.
    """
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputError("server", "a file that can be read", f"'{path}' ({error.strerror})") from None
    saved = unpack(data, "server", {})
    values, arrays = saved.values, saved.arrays
    try:
        total, lost = Summary.kept(arrays["gram"], arrays["moment"]), Lost(**values.get("lost", {}))
        ledger = Ledger(total, values["gamma"], values["grid"], lost, values.get("solver", "direct"))
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
    _note(server, file, data)
    return server


def _note(server: Server, file: Path, data: bytes) -> None:
    _SEEN.setdefault(server, {})[file.resolve()] = hashlib.sha256(data).digest()


def _differs(server: Server, file: Path) -> bool:
    """Say whether a file holds something else than this server last read or wrote."""
    try:
        present = hashlib.sha256(file.read_bytes()).digest()
    except FileNotFoundError:
        return False
    return _SEEN.get(server, {}).get(file.resolve()) != present
