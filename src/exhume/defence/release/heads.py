"""The paper's own release, which the protocol has: every head, in a number format."""

from exhume.protocol.rules import Heads

__all__ = ["RULES"]

RULES = (Heads,)
