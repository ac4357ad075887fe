"""Keys of results: a hash of the inputs and of all code that a result can depend on.

The code is found, never listed: `code_digest` follows imports, registries and plug-ins from the module that does the
work (`exhume.jobs.sources`). A list kept by hand goes stale, and then serves old results as new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, packages_distributions, version
from typing import Any

import numpy as np

from exhume.errors import InputError
from exhume.jobs.sources import Closure, Package, closure, top

__all__ = ["code_digest", "digest_of", "key_of"]

GROUPS = "exhume."
"""Entry-point groups through which other distributions add to Exhume begin so."""


@cache
def code_digest(module: str) -> str:
    """Return a hash of everything installed that a result of ``module`` can depend on; worked out once per process.

    That is the text of every module that it imports, directly or not, at the top or inside a function, from Exhume or
    from the package it lies in; the modules that a registry among them searches; plug-ins of other distributions with
    what they import; data files beside all these; and the versions of the libraries that they import at the top
    (an optional one, imported inside a function, makes inputs, which carry fingerprints of their own).
    """
    return digest_of(module, Package.installed)


def digest_of(module: str, find: Callable[[str], Package | None]) -> str:
    """Return the digest of a module with its packages where ``find`` says they are."""
    points = _plugins()
    modules = [module, *(point.module for point in points)]
    packages = {name: find(name) for name in dict.fromkeys(["exhume", *map(top, modules)])}
    if packages[top(module)] is None:
        raise InputError("work", "a function of a module that can be imported again", f"module '{module}'")
    found = closure(modules, [package for package in packages.values() if package is not None])
    digest = hashlib.sha256()
    for name, path in sorted(found.files.items()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{name} {content}\n".encode())
    for point in points:
        digest.update(f"{point.group} {point.name} {point.value} {_distribution(point)}\n".encode())
    for line in _versions(found):
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def key_of(work: Callable[..., object], inputs: Mapping[str, Any]) -> str:
    """Return the key of one result: a hash of the code behind ``work``, its name, and the inputs as JSON.

    Parameters
    ----------
    work
        The function that does the work, at the top of a module: its module is where the search for code begins.
    inputs
        Whatever else decides the result: numbers, texts, lists, mappings, dataclasses, arrays.
    """
    name = getattr(work, "__qualname__", "<nameless>")
    if "<" in name:
        raise InputError("work", "a function at the top of a module", repr(work))
    try:
        plain = json.dumps(dict(inputs), sort_keys=True, default=_plain, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InputError("inputs", "plain data", str(error)) from error
    return hashlib.sha256(f"{code_digest(work.__module__)} {name} {plain}".encode()).hexdigest()


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype != object:
        content = np.ascontiguousarray(value).tobytes()
        return [str(value.dtype), list(value.shape), hashlib.sha256(content).hexdigest()]
    raise TypeError(f"{type(value).__name__} has no plain form")


def _plugins() -> list[EntryPoint]:
    found = entry_points()
    points = [point for group in found.groups if group.startswith(GROUPS) for point in found.select(group=group)]
    return sorted(points, key=lambda point: (point.group, point.name, point.value))


def _distribution(point: EntryPoint) -> str:
    return "" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _versions(found: Closure) -> list[str]:
    """Return the libraries that the code imports at the top, each with its version."""
    lines = set()
    for name in found.libraries:
        try:
            lines.add(f"{name} {version(name)}")
        except PackageNotFoundError:
            lines |= {f"{each} {version(each)}" for each in packages_distributions().get(name, ())}
    return sorted(lines)
