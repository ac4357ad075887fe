"""What a run would need of this machine's memory, said and refused before it starts."""

from __future__ import annotations

import math
import os
from pathlib import Path

from exhume.errors import InputError

__all__ = ["free_memory", "require_federation", "require_memory"]

SQUARES = 8
"""Matrices of d x d numbers that one process holds at the least: the server's gram and its factor, the two stacks of a
probe run, and both halves of the state before and after a deletion. So what is refused could not have ended well."""


def free_memory() -> int | None:
    """Return the bytes that a program may still take: what the system has left, and its container; None if unknown."""
    left = [size for size in (_available(), _container()) if size is not None]
    return min(left) if left else None


def require_memory(option: str, got: object, needed: float, what: str, hint: str = "") -> None:
    """Refuse an option's value if what it asks for does not fit into memory; a hint says what would."""
    free = free_memory()
    if free is not None and needed > free:
        raise InputError(
            option,
            f"small enough for memory ({what} would need at least {_size(needed)}; {_size(free)} are free{hint})",
            got,
        )


def require_federation(d: int | None, processes: int = 1, squares: int = SQUARES) -> None:
    """Refuse more features than the matrices of a federation and its attacker leave room for."""
    if d is not None:
        count = processes or os.cpu_count() or 1
        what = f"the matrices of {count} process{'es' if count > 1 else ''}"
        fitting = math.isqrt(int((free_memory() or 0) / (count * squares * 8)))
        fewer = " or fewer --jobs" if count > 1 else ""
        require_memory("dim", d, count * squares * 8.0 * d * d, what, f": at most --dim {fitting}{fewer}")


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        pass
    try:  # where only the whole is known, more than that is certainly too much
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _container() -> int | None:
    try:
        limit, used = (Path("/sys/fs/cgroup", name).read_text("ascii") for name in ("memory.max", "memory.current"))
        return max(int(limit) - int(used), 0)
    except (OSError, ValueError):  # no container, or one without a limit
        return None


def _size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count < 1e15 else f"{count / 1e9:.0e} GB"
