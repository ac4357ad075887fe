"""Decoders by name. Adding one is adding a module here that defines the tuple `DECODERS`."""

from __future__ import annotations

import sys
from functools import cache

from exhume.data._registry import discover
from exhume.decode._base import DecoderEntry
from exhume.errors import unknown_name

__all__ = ["by_name", "registry"]


@cache
def registry() -> dict[str, DecoderEntry]:
    """Every known decoder, by name."""
    return discover(sys.modules[__name__], "DECODERS", "exhume.decoders", DecoderEntry)


def by_name(name: str) -> DecoderEntry:
    """Return the registry entry of that name."""
    if name not in registry():
        raise unknown_name("decoder", name, registry())
    return registry()[name]
