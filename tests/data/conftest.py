import os
from pathlib import Path

import pytest

# Read before the isolation below: only tests that say so look at the user's own folders.
GIVEN = os.environ.get("EXHUME_DATA_PATH", "")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An empty home folder, and nothing on EXHUME_DATA_PATH."""
    monkeypatch.setenv("EXHUME_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EXHUME_DATA_PATH", raising=False)
    return tmp_path / "home"


@pytest.fixture
def given(monkeypatch):
    """The user's EXHUME_DATA_PATH, as it was before the tests hid it."""
    monkeypatch.setenv("EXHUME_DATA_PATH", GIVEN)

    def find(relative: str) -> Path:
        for folder in GIVEN.split(os.pathsep) if GIVEN else ():
            if (Path(folder) / relative).is_file():
                return Path(folder) / relative
        pytest.skip(f"no folder on EXHUME_DATA_PATH has {relative}")

    return find
