"""Encoders by name. Adding one is adding a module here that defines the tuple `ENCODERS`."""

from __future__ import annotations

import sys
from functools import cache

from exhume.data._registry import discover
from exhume.data.encoders._base import RESIZES, Encoder, EncoderEntry, Options
from exhume.errors import InputError, unknown_name

__all__ = ["RESIZES", "Encoder", "EncoderEntry", "Options", "build", "by_name", "registry"]


@cache
def registry() -> dict[str, EncoderEntry]:
    """Every known encoder, by name."""
    return discover(sys.modules[__name__], "ENCODERS", "exhume.encoders", EncoderEntry)


def by_name(name: str) -> EncoderEntry:
    """Return the registry entry of that name."""
    if name not in registry():
        raise unknown_name("encoder", name, registry())
    return registry()[name]


def build(name: str, options: Options) -> Encoder:
    """Return the encoder of that name with these options.

    Weights are read, and torch imported, only when it encodes its first batch.

    Raises
    ------
    InputError
        If there is no encoder of that name, or the options do not fit it.
    """
    entry = by_name(name)
    if options.weights is None and options.sha256 is not None:
        raise InputError("sha256", "given together with weights", options.sha256)
    if entry.holding is None and options.weights is not None:
        raise InputError("weights", f"absent for the {name} encoder, which has none", options.weights)
    if options.resize not in RESIZES:
        raise unknown_name("resize", options.resize, RESIZES)
    if entry.dim is not None and options.dim not in (None, entry.dim):
        raise InputError("dim", f"{entry.dim} for the {name} encoder", options.dim)
    return entry.build(options)
