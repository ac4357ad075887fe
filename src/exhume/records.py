"""What every written record shares: frozen, no unknown fields, no number that JSON does not have."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

__all__ = ["Number", "Record"]


def _finite(value: Any) -> Any:
    """JSON has no infinity: what is not finite is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Number = Annotated[float | None, BeforeValidator(_finite)]


class Record(BaseModel):
    """A frozen record without room for unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
