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
    from exhume import advise, attack, audit, data, defence, protocol, sklearn
    from exhume.attack import estimate, probes, recover
    from exhume.attack.session import Attack
    from exhume.defence import hardened, release

__all__ = [
    "AdmissionRule",
    "Attack",
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
    "advise",
    "attack",
    "audit",
    "data",
    "defence",
    "errors",
    "estimate",
    "hardened",
    "probes",
    "protocol",
    "recover",
    "release",
    "sklearn",
]

_LAZY = {
    "Attack": "exhume.attack.session:Attack",
    "advise": "exhume.advise",
    "attack": "exhume.attack",
    "audit": "exhume.audit",
    "data": "exhume.data",
    "defence": "exhume.defence",
    "estimate": "exhume.attack.estimate",
    "hardened": "exhume.defence:hardened",
    "probes": "exhume.attack.probes",
    "recover": "exhume.attack.recover",
    "release": "exhume.defence.release",
    "sklearn": "exhume.sklearn",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'exhume' has no attribute '{name}'")
    module, _, attribute = _LAZY[name].partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found
