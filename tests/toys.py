"""A package outside the tree with one thing of every kind: the recipes of CONTRIBUTING.md, followed to the letter."""

import importlib
import re
import tomllib
from pathlib import Path

from exhume.cli._options import PLACES
from exhume.registry import Registry

RECIPES = Path(__file__).parents[1] / "CONTRIBUTING.md"

BROUGHT = {
    "exhume.data_sets": "stripes",
    "exhume.encoders": "unit",
    "exhume.probes": "shuffled",
    "exhume.estimators": "pseudo-inverse",
    "exhume.recoveries": "projected",
    "exhume.attacks": "one-by-one",
    "exhume.admission": "few-messages",
    "exhume.release": "shifted-totals",
    "exhume.accountants": "counting",
    "exhume.decoders": "median",
    "exhume.paper": "accuracies",
}
"""What the package brings, by entry-point group."""


def registries() -> dict[str, Registry]:
    """Return every registry by its entry-point group."""
    places = (place.partition(":") for place in PLACES.values())
    found = (getattr(importlib.import_module(module), attribute) for module, _, attribute in places)
    return {registry.group: registry for registry in found if isinstance(registry, Registry)}


def renew() -> None:
    """Let every registry search again."""
    for registry in registries().values():
        registry.renew()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", RECIPES.read_text(encoding="utf-8"), flags=re.DOTALL)


def recipes() -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the modules of the recipes by name, and their entry points by group."""
    modules = {found[1]: block for block in _blocks("python") if (found := re.match(r"# toy/(\w+)\.py\n", block))}
    points: dict[str, dict[str, str]] = {}
    for block in _blocks("toml"):
        points |= tomllib.loads(block).get("project", {}).get("entry-points", {})
    return modules, points


def install(folder: Path, points: dict[str, dict[str, str]] | None = None) -> None:
    """Leave the package in a folder as an installer does: modules and a dist-info."""
    modules, usual = recipes()
    package, info = folder / "toy", folder / "toy-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").touch()
    for name, text in modules.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in named.items())
        for group, named in (usual if points is None else points).items()
    ]
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("".join(lines), encoding="utf-8")
