"""Reading weight files without running what is in them."""

from __future__ import annotations

import collections
import importlib
import io
import pickle
from collections.abc import Set
from pathlib import Path
from typing import Any

from exhume.data.files import sha256_of_file
from exhume.errors import DataError

__all__ = ["read_tensors"]


def read_tensors(path: Path, trusted: Set[str]) -> dict[str, Any]:
    """Return the named tensors of a weight file.

    Parameters
    ----------
    path : path
        A ``.safetensors`` file, a checkpoint of torch, or a plain pickle of tensors (``.pkl``).
    trusted : set of str
        The hashes of known files. A plain pickle is opened only if its hash is among them, and then only
        with an unpickler that knows no more than tensors.

    Raises
    ------
    DataError
        If the file cannot be read in this way.
    """
    torch = importlib.import_module("torch")
    try:
        if path.suffix == ".safetensors":
            return dict(importlib.import_module("safetensors.torch").load_file(path))
        if path.suffix == ".pkl":
            if sha256_of_file(path) not in trusted:
                raise DataError(f"{path} is a pickle of unknown hash, which is not opened")
            with path.open("rb") as stream:
                return dict(_TensorUnpickler(stream).load())
        return dict(torch.load(path, map_location="cpu", weights_only=True))
    except (pickle.UnpicklingError, RuntimeError, ValueError, TypeError, LookupError, EOFError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path} cannot be read as weights: {reason}") from error


class _TensorUnpickler(pickle.Unpickler):
    """An unpickler that can build an ordered dictionary of tensors and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the three things that a pickled state dict may name."""
        torch = importlib.import_module("torch")
        allowed = {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
            ("torch.storage", "_load_from_bytes"): _storage_from_bytes,
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}, which is not a tensor")
        return allowed[module, name]


def _storage_from_bytes(content: bytes) -> Any:
    torch = importlib.import_module("torch")
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
