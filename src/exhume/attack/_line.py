"""One line for a value that holds arrays: what a session, a log or a failed test shows of it."""

from __future__ import annotations

import numpy as np

__all__ = ["line"]


def line(of: object, **shown: object) -> str:
    """Return ``Name(key=value, ...)``: floats to three digits, arrays by their shape, what is None left out."""
    parts = [f"{key}={_short(value)}" for key, value in shown.items() if value is not None]
    return f"{type(of).__name__}({', '.join(parts)})"


def _short(value: object) -> str:
    if isinstance(value, np.ndarray):
        return "x".join(map(str, value.shape))
    if isinstance(value, bool | int | str):
        return str(value)
    return f"{value:.3g}" if isinstance(value, float) else repr(value)
