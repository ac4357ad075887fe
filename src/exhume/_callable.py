"""Rooms that are also functions: `exhume.audit` is a package, and `exhume.audit(features, labels)` runs an audit."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

__all__ = ["make_callable"]


class _CallableModule(ModuleType):
    _entry: tuple[str, str]

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        module, name = self._entry
        return getattr(importlib.import_module(f"{self.__name__}.{module}"), name)(*arguments, **options)


def make_callable(room: str, module: str, name: str) -> None:
    """Let a package be called, with what a function of one of its modules takes; that is imported then.

    The module is named in two words, because a result's key follows whole names: the code of a report shall not count
    as code that makes numbers.
    """
    package = sys.modules[room]
    package.__class__ = _CallableModule
    vars(package)["_entry"] = (module, name)
