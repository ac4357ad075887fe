"""Source files that a module can depend on, read from the text of the modules; nothing is imported for it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import PathFinder
from pathlib import Path

__all__ = ["Closure", "Package", "closure", "top"]

_REGISTRY = "exhume.registry"
_SEARCHES = {"Registry": 1, "discover": 0}
"""What searches a package for modules, and the place of that package among the arguments."""
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def top(module: str) -> str:
    """Return the first part of a module's name."""
    return module.partition(".")[0]


@dataclass(frozen=True)
class Package:
    """A top-level package whose source is followed: its name, and its folder (or its file, if it is one module)."""

    name: str
    path: Path

    @classmethod
    def installed(cls, name: str) -> Package | None:
        """Return the package that an import would find; None if there is none with source in Python."""
        loaded = getattr(sys.modules.get(name), "__file__", None)
        spec = PathFinder.find_spec(name) if loaded is None else None
        origin = loaded if loaded is not None else None if spec is None else spec.origin
        if origin is not None and origin.endswith(".py"):
            path = Path(origin)
            return cls(name, path.parent if path.name == "__init__.py" else path)
        places = [] if spec is None else list(spec.submodule_search_locations or ())
        return cls(name, Path(places[0])) if places else None

    def file(self, module: str) -> Path | None:
        """Return the source of one of its modules; None if there is no such module."""
        parts = module.split(".")[1:]
        if self.path.suffix == ".py":
            return None if parts else self.path
        base = self.path.joinpath(*parts)
        tried = (base / "__init__.py", base.with_suffix(".py")) if parts else (base / "__init__.py",)
        return next((path for path in tried if path.is_file()), None)


@dataclass
class Closure:
    """What a search has found: files by the names they go by on every machine, and libraries imported at the top."""

    files: dict[str, Path] = field(default_factory=dict)
    libraries: set[str] = field(default_factory=set)


def closure(modules: Iterable[str], packages: Sequence[Package]) -> Closure:
    """Return every source and data file that some modules can depend on, as far as the packages reach."""
    library = _Library(packages)
    found = Closure()
    waiting = list(modules)
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module in seen or not library.covers(module):
            continue
        seen.add(module)
        if "." in module:
            waiting.append(module.rpartition(".")[0])
        source = library.source(module)
        if source is not None:
            found.files[f"{module} {source.path.name}"] = source.path
            found.files |= source.data()
            found.libraries |= source.libraries()
            waiting += source.modules()
    return found


class _Library:
    """The packages of one search; each module is looked up and read once."""

    def __init__(self, packages: Sequence[Package]) -> None:
        self._known = {package.name: package for package in packages}
        self._sources: dict[str, _Source | None] = {}

    def covers(self, module: str) -> bool:
        """Whether a module belongs to one of the packages."""
        return top(module) in self._known

    def source(self, module: str) -> _Source | None:
        """Return a module; None if there is none of that name."""
        if module not in self._sources:
            path = self._known[top(module)].file(module) if self.covers(module) else None
            self._sources[module] = None if path is None else _Source(module, path, self)
        return self._sources[module]

    def folder(self, package: str) -> Path | None:
        """Return where the modules of a package lie."""
        if not self.covers(package):
            return None
        folder = self._known[top(package)].path.joinpath(*package.split(".")[1:])
        return folder if folder.is_dir() else None

    def has(self, module: str) -> bool:
        """Whether there is a module of that name, or a folder of modules without an ``__init__.py``."""
        if self.source(module) is not None:
            return True
        folder = self.folder(module)
        return folder is not None and any(folder.glob("*.py"))


class _Source:
    """One module: what its text says it imports, searches and reads."""

    def __init__(self, module: str, path: Path, library: _Library) -> None:
        self.module = module
        self.path = path
        self.package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        self._library = library
        self._tree = ast.parse(path.read_bytes(), filename=str(path))

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return list(_live(self._tree))

    @cached_property
    def _texts(self) -> list[str]:
        return [n.value for n in self._nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]

    def modules(self) -> list[str]:
        """Names of modules that this one may load; some may not exist."""
        return [*self._imported(), *self._named(), *self._searched()]

    def _base(self, node: ast.ImportFrom) -> str:
        """Return the absolute name of what a ``from`` import takes its names from."""
        if not node.level:
            return node.module or ""
        parts = self.package.split(".")
        above = ".".join(parts[: len(parts) - node.level + 1])
        return f"{above}.{node.module}" if node.module else above

    def _imported(self) -> Iterator[str]:
        bound: dict[str, str] = {}
        for node in self._nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name
                    bound[alias.asname or top(alias.name)] = alias.name if alias.asname else top(alias.name)
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                yield base
                for alias in node.names:
                    for module in self._member(base, alias.name):
                        yield module
                        bound[alias.asname or alias.name] = module
        for node in self._nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in bound:
                yield from self._member(bound[node.value.id], node.attr)

    def _member(self, base: str, name: str) -> Iterator[str]:
        """Yield the modules behind one name of a module: its submodule, or what a lazy package loads for it."""
        source = self._library.source(base)
        lazy = {} if source is None else source.lazy
        if name == "*":
            yield from lazy.values()
        elif name in lazy:
            yield lazy[name]
        elif self._library.has(f"{base}.{name}"):
            yield f"{base}.{name}"

    @cached_property
    def lazy(self) -> dict[str, str]:
        """The names that this package loads on first use, each with the module behind it."""
        if not any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in self._tree.body):
            return {}
        return {
            key.value: value.value.partition(":")[0]
            for node in self._nodes
            if isinstance(node, ast.Dict)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
            if isinstance(key.value, str) and isinstance(value.value, str)
        }

    def _named(self) -> Iterator[str]:
        """Yield modules that are named in a text, as ``importlib.import_module`` takes them.

        Those that a package loads lazily are left out: whoever takes a name from it says which.
        """
        lazy = set(self.lazy.values())
        for text in self._texts:
            module = text.partition(":")[0]
            if _DOTTED.fullmatch(module) and module not in lazy and self._library.has(module):
                yield module

    def _searched(self) -> Iterator[str]:
        """Yield the modules of every package that a registry made here searches."""
        for name in self._registries():
            folder = self._library.folder(name)
            for path in () if folder is None else folder.iterdir():
                if not path.name.startswith("_") and self._library.has(f"{name}.{path.stem}"):
                    yield f"{name}.{path.stem}"

    def _registries(self) -> Iterator[str]:
        places = {
            alias.asname or alias.name: _SEARCHES[alias.name]
            for node in self._nodes
            if isinstance(node, ast.ImportFrom) and self._base(node) == _REGISTRY
            for alias in node.names
            if alias.name in _SEARCHES
        }
        if self.module == _REGISTRY:
            return
        for node in self._nodes:
            if isinstance(node, ast.Call):
                called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                place = places.get(called, _SEARCHES.get(called) if isinstance(node.func, ast.Attribute) else None)
                if place is not None:
                    yield self._package_of(node, place)

    def _package_of(self, call: ast.Call, place: int) -> str:
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        given = call.args[place] if len(call.args) > place else named.get("package")
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            return given.value
        # `__name__`, `__package__` or something that only running would tell: the package it stands in.
        return self.package

    def libraries(self) -> set[str]:
        """Names of other packages that it imports when it is imported itself."""
        tops: set[str] = set()
        for node in _top_level(self._tree):
            if isinstance(node, ast.Import):
                tops |= {top(alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                tops.add(top(node.module or ""))
        return {name for name in tops if not self._library.covers(name)} - sys.stdlib_module_names

    def data(self) -> dict[str, Path]:
        """Return the files beside the module that are not Python, and those in folders of data that it names."""
        folder = self.path.parent
        beside = list(folder.iterdir())
        named = {text.partition("/")[0] for text in self._texts}
        files = [path for path in beside if path.is_file()]
        for path in beside:
            if path.name in named and path.is_dir() and not (path / "__init__.py").exists():
                files += [each for each in path.rglob("*") if each.is_file()]
        return {
            f"{self.package} {path.relative_to(folder).as_posix()}": path
            for path in files
            if path.suffix not in (".py", ".pyc") and not path.name.startswith(".") and not path.name.endswith("~")
        }


def _live(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree, without what only type checkers read."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.orelse if _for_types(node) else ast.iter_child_nodes(node)  # type: ignore[attr-defined]


def _top_level(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk what runs when the module is imported: neither functions nor blocks for type checkers."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not _for_types(node):
            waiting += ast.iter_child_nodes(node)


def _for_types(node: ast.AST) -> bool:
    if not isinstance(node, ast.If):
        return False
    name = node.test.id if isinstance(node.test, ast.Name) else getattr(node.test, "attr", "")
    return name == "TYPE_CHECKING"
