import os
from pathlib import Path

import pytest

from exhume.data.home import data_path, home_folder


def test_home_is_the_argument_then_the_variable_then_the_platforms(monkeypatch):
    monkeypatch.setenv("EXHUME_HOME", "/from/variable")
    assert home_folder("/given") == Path("/given")
    assert home_folder() == Path("/from/variable")
    monkeypatch.delenv("EXHUME_HOME")
    assert home_folder().name == "exhume"


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/cache"}, "/cache/exhume"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/me/.cache/exhume"),
        ("linux", {}, "/me/.cache/exhume"),
        ("darwin", {}, "/me/Library/Caches/exhume"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/exhume"),
    ],
)
def test_platform_folders(monkeypatch, platform, variables, expected):
    monkeypatch.delenv("EXHUME_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/me")
    monkeypatch.setattr("sys.platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert home_folder() == Path(expected)


def test_home_is_not_created(home):
    home_folder()
    assert not home.exists()


def test_data_path(monkeypatch):
    assert data_path() == ()
    monkeypatch.setenv("EXHUME_DATA_PATH", os.pathsep.join(["/a", "", "/b"]))
    assert data_path() == (Path("/a"), Path("/b"))
