"""What can carry the messages of a simulated federation."""

from __future__ import annotations

from collections.abc import Callable

from exhume.simulate.federation import Carrier

__all__ = ["ENGINES", "IN_PROCESS"]

IN_PROCESS = "in-process"


def _flower() -> Carrier:
    """Let messages travel as Flower's, between a ServerApp's rounds and ClientApps."""
    from exhume.flower.engine import FlowerServer

    return FlowerServer.around


ENGINES: dict[str, Callable[[], Carrier] | None] = {IN_PROCESS: None, "flower": _flower}
"""What makes the carrier of each engine, None to call the server directly. Its packages are loaded only then."""
