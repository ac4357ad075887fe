"""Exhume answers one question: can a client dig up what exact federated unlearning deleted, and what stops it.

The names below are the public face; everything else is reached through its room (`exhume.protocol`, `exhume.data`).
Rooms that cost time to import are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from exhume import errors
from exhume._version import __version__
from exhume.protocol import (
    AdmissionRule,
    Client,
    Head,
    Heads,
    Ledger,
    Receipt,
    ReleaseRule,
    Server,
    Summary,
    Target,
    Update,
)

if TYPE_CHECKING:
    from exhume import data, protocol, sklearn

__all__ = [
    "AdmissionRule",
    "Client",
    "Head",
    "Heads",
    "Ledger",
    "Receipt",
    "ReleaseRule",
    "Server",
    "Summary",
    "Target",
    "Update",
    "__version__",
    "data",
    "errors",
    "protocol",
    "sklearn",
]

_LAZY = {"data": "exhume.data", "sklearn": "exhume.sklearn"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(_LAZY[name])
    raise AttributeError(f"module 'exhume' has no attribute '{name}'")
