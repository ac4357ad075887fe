"""A malicious client: probes, estimates of a state, recoveries, strategies, and the theory of all of them.

Its rooms are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exhume.attack import estimate, predictions, probes, recover, session, strategies, theory

__all__ = ["estimate", "predictions", "probes", "recover", "session", "strategies", "theory"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'exhume.attack' has no attribute '{name}'")
    return importlib.import_module(f"exhume.attack.{name}")
