"""What a live audit has still to take back, as a file: sent later, when the server can be reached again."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol.head import Head
from exhume.protocol.summary import Summary

__all__ = ["Outstanding", "read", "write"]

FORMAT = "exhume-undo/1"


@dataclass(frozen=True)
class Outstanding:
    """The sum that stands in a server's ledger, and messages of which nobody knows whether they arrived."""

    baseline: Head
    """The head before anything was sent."""
    total: Summary
    """What was sent and surely applied."""
    doubts: tuple[Summary, ...]
    """Net changes whose answer was lost."""
    tolerance: float
    """The relative distance from the baseline at which the head counts as back."""
    target: str = ""
    keys: tuple[str | None, ...] = ()
    """The keys of the messages in doubt, where the server knows keys: it can be asked about them."""

    @property
    def nothing(self) -> bool:
        """Whether nothing is left to take back."""
        return self.total.is_zero and not self.doubts


def write(folder: Path, what: Outstanding, path: Path | None = None) -> Path:
    """Put it on disk, whole: into the file given, or under a name that is not taken; returns the file."""
    parts = {"total": what.total, **{f"doubt{i}": doubt for i, doubt in enumerate(what.doubts)}}
    arrays: dict[str, Matrix] = {"baseline": np.ascontiguousarray(what.baseline.weights)}
    for name, part in parts.items():
        arrays[f"{name}.moment"] = np.ascontiguousarray(part.moment)
        if not part.gram_is_zero:  # the probes of a live audit are mostly moments: the file stays small
            arrays[f"{name}.gram"] = np.ascontiguousarray(part.gram)
    facts = {
        "precision": what.baseline.precision,
        "doubts": len(what.doubts),
        "tolerance": what.tolerance,
        "target": what.target,
        "keys": list(what.keys),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = path or next(p for n in range(1, 10**6) if not (p := folder / f"undo-{n}.safetensors").exists())
    waiting = path.with_suffix(".part")
    with waiting.open("wb") as file:
        file.write(save(arrays, metadata={"format": FORMAT, "facts": json.dumps(facts)}))
        file.flush()
        os.fsync(file.fileno())
    waiting.replace(path)
    return path


def read(path: Path) -> Outstanding:
    """Read what `write` left."""
    allowed = "a file that a live audit left with what it could not take back"
    try:
        data = path.read_bytes()
        arrays = load(data)
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])["__metadata__"]
        if header["format"] != FORMAT:
            raise InputError("undo", f"{allowed} ({FORMAT})", header["format"])
        facts = json.loads(header["facts"])
        total = _summary(arrays, "total")
        doubts = tuple(_summary(arrays, f"doubt{i}") for i in range(int(facts["doubts"])))
        baseline = Head(np.asarray(arrays["baseline"], dtype=np.float64), str(facts["precision"]))
        keys = tuple(None if key is None else str(key) for key in facts.get("keys", ()))
        return Outstanding(baseline, total, doubts, float(facts["tolerance"]), str(facts["target"]), keys)
    except OSError as error:
        raise InputError("undo", allowed, f"'{path}' ({error.strerror})") from None
    except (SafetensorError, KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError("undo", allowed, f"'{path}' ({type(error).__name__})") from None


def _summary(arrays: dict[str, Matrix], name: str) -> Summary:
    moment = np.asarray(arrays[f"{name}.moment"], dtype=np.float64)
    gram = arrays.get(f"{name}.gram")
    return Summary(np.zeros((len(moment), len(moment))) if gram is None else np.asarray(gram), moment)
