"""The search for code, on packages small enough to know every answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from exhume.jobs.sources import Package, closure

LAZY = """
_LAZY = {"Late": "exhume.late:Late", "later": "exhume.later"}
def __getattr__(name):
    ...
"""


@pytest.fixture
def package(tmp_path: Path) -> Package:
    for name, text in {
        "__init__.py": LAZY,
        "start.py": "from exhume.room import thing\nimport numpy as np\n",
        "room/__init__.py": "",
        "room/thing.py": "x = 1",
        "room/other.py": "x = 1",
        "room/facts.toml": "x = 1",
        "room/pages/one.j2": "x = 1",
        "late.py": "class Late: ...",
        "later.py": "",
        "registry.py": "class Registry: ...\ndef discover(): ...\n",
    }.items():
        path = tmp_path / "exhume" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    return Package("exhume", tmp_path / "exhume")


def found(package: Package, text: str) -> set[str]:
    (package.path / "start.py").write_text(text)
    files = closure(["exhume.start"], [package]).files
    assert all(path.is_file() for path in files.values())
    names = {path.relative_to(package.path).as_posix() for path in files.values()}
    return names - {"__init__.py", "start.py"}


THING = {"room/__init__.py", "room/thing.py", "room/facts.toml"}


@pytest.mark.parametrize(
    "text",
    [
        "from exhume.room import thing",
        "from exhume.room.thing import x",
        "import exhume.room.thing",
        "from .room import thing",
        "from .room.thing import x",
        "def f():\n    from exhume.room import thing",
        "class A:\n    def f(self):\n        if self:\n            import exhume.room.thing as t",
        "try:\n    from exhume.room import thing\nexcept ImportError:\n    thing = None",
        "import importlib\nthing = importlib.import_module('exhume.room.thing')",
        "place = 'exhume.room.thing:x'",
        "from exhume import room\nroom.thing",
        "import exhume.room as r\nr.thing",
    ],
)
def test_every_way_to_import(package: Package, text: str) -> None:
    assert found(package, text) == THING


@pytest.mark.parametrize(
    "text",
    [
        "from exhume import Late",
        "import exhume\nexhume.Late",
        "import exhume as ex\ndef f():\n    return ex.Late",
        "from . import Late",
    ],
)
def test_a_lazy_name_leads_to_its_own_module_only(package: Package, text: str) -> None:
    assert found(package, text) == {"late.py"}


def test_a_star_takes_every_lazy_name(package: Package) -> None:
    assert found(package, "from exhume import *") == {"late.py", "later.py"}


@pytest.mark.parametrize("guard", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
def test_what_only_type_checkers_read_does_not_count(package: Package, guard: str) -> None:
    text = f"import typing\nif {guard}:\n    from exhume.room import thing\nelse:\n    from exhume import late"
    assert found(package, text) == {"late.py"}


@pytest.mark.parametrize(
    "call",
    [
        "from exhume.registry import Registry\nR = Registry('thing', 'exhume.room', 'THINGS', 'exhume.things', int)",
        "from exhume.registry import Registry as R\nr = R('thing', package='exhume.room', attribute='T', group='g')",
        "from exhume.registry import discover\ndef f():\n    return discover('exhume.room', 'THINGS', 'g', int)",
        "from exhume import registry\nr = registry.Registry('thing', 'exhume.room', 'THINGS', 'g', int)",
    ],
)
def test_a_registry_brings_the_modules_of_its_package(package: Package, call: str) -> None:
    assert found(package, call) == THING | {"room/other.py", "registry.py"}


def test_a_registry_of_its_own_package(package: Package) -> None:
    init = "from exhume.registry import Registry\nR = Registry('thing', __name__, 'THINGS', 'exhume.things', int)"
    (package.path / "room/__init__.py").write_text(init)
    assert found(package, "from exhume.room import R") == THING | {"room/other.py", "registry.py"}


def test_a_folder_of_data_counts_where_it_is_named(package: Package) -> None:
    assert "room/pages/one.j2" not in found(package, "import exhume.room.thing")
    (package.path / "room/thing.py").write_text("folder = 'pages'")
    assert "room/pages/one.j2" in found(package, "import exhume.room.thing")


def test_libraries_are_those_imported_at_the_top(package: Package) -> None:
    (package.path / "start.py").write_text(
        "import os, numpy as np\nfrom scipy.linalg import svd\ndef f():\n import torch"
    )
    assert closure(["exhume.start"], [package]).libraries == {"numpy", "scipy"}


def test_a_module_that_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "plug.py").write_text("")
    assert set(closure(["plug"], [Package("plug", tmp_path / "plug.py")]).files) == {"plug plug.py"}
    assert Package.installed("no_such_package_anywhere") is None
    assert Package.installed("sys") is None
