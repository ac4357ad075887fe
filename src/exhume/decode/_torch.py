"""Torch and diffusers, imported where they are used: without the extra, everything else of the room still works."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from exhume.errors import InputError, MissingExtraError

__all__ = ["Tensor", "available", "device_of", "diffusers", "torch"]

Tensor = Any
EXTRA = "decode"


def available() -> bool:
    """Whether the extra that trains networks is installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("torch", "diffusers"))


def torch(what: str) -> Any:
    """Return the module torch, or raise the error that says what brings it."""
    return _module("torch", what)


def diffusers(what: str) -> Any:
    """Return the module diffusers, or raise the error that says what brings it."""
    return _module("diffusers", what)


def _module(name: str, what: str) -> Any:
    if importlib.util.find_spec(name) is None:
        raise MissingExtraError(what, EXTRA)
    return importlib.import_module(name)


def device_of(name: str, what: str) -> Any:
    """Return a torch device that works here."""
    module = torch(what)
    try:
        device = module.device(name)
        module.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError("device", "one that torch can use here, such as cpu or cuda", name) from error
    return device
