"""The protocol on Flower: a ServerApp, a ClientApp, a round between them, and a malicious node.

Importing it needs the extra `flower`. Flower's telemetry and its update check are switched off here, before Flower is
imported; whoever wants them sets the variables.
"""

from __future__ import annotations

import os

from exhume.errors import MissingExtraError

QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
"""What keeps a Flower process from calling home."""

for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)

try:
    import flwr as _flwr  # noqa: F401
except ImportError as _error:
    raise MissingExtraError("Flower", "flower") from _error
