"""Decoders by name. Adding one is adding a module here that defines the tuple `DECODERS`."""

from __future__ import annotations

from typing import Any

from exhume.decode._base import Decoder, DecoderEntry
from exhume.registry import Registry

__all__ = ["REGISTRY", "build"]

REGISTRY = Registry("decoder", __name__, "DECODERS", "exhume.decoders", DecoderEntry)
"""Every known decoder, by name."""


def build(name: str, **options: Any) -> Decoder:
    """Return a fresh decoder of that name with these options."""
    return REGISTRY.find(name).build(**options)
