"""Encoders by name. Adding one is adding a module here that defines the tuple `ENCODERS`."""

from __future__ import annotations

from exhume.data.encoders._base import CPU, RESIZES, Encoder, EncoderEntry, Options
from exhume.errors import InputError, unknown_name
from exhume.registry import Registry

__all__ = ["REGISTRY", "RESIZES", "Encoder", "EncoderEntry", "Options", "build"]

REGISTRY = Registry("encoder", __name__, "ENCODERS", "exhume.encoders", EncoderEntry)
"""Every known encoder, by name."""


def build(name: str, options: Options) -> Encoder:
    """Return the encoder of that name with these options.

    Weights are read, and torch imported, only when it encodes its first batch.

    Raises
    ------
    InputError
        If there is no encoder of that name, or the options do not fit it.
    """
    entry = REGISTRY.find(name)
    if options.weights is None and options.sha256 is not None:
        raise InputError("sha256", "given together with weights", options.sha256)
    if entry.holding is None and options.weights is not None:
        raise InputError("weights", f"absent for the {name} encoder, which has none", options.weights)
    if entry.extra is None and options.device != CPU:
        raise InputError("device", f"{CPU} for the {name} encoder, which runs without torch", f"'{options.device}'")
    if options.resize not in RESIZES:
        raise unknown_name("resize", options.resize, RESIZES)
    if entry.dim is not None and options.dim not in (None, entry.dim):
        raise InputError("dim", f"{entry.dim} for the {name} encoder", options.dim)
    return entry.build(options)
