import pytest

from exhume.data import load_features
from exhume.decode._torch import available

needs_torch = [
    pytest.mark.extras,
    pytest.mark.skipif(not available(), reason="the 'decode' extra (torch and diffusers) is not installed"),
]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An empty home folder, and nothing on EXHUME_DATA_PATH."""
    monkeypatch.setenv("EXHUME_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EXHUME_DATA_PATH", raising=False)
    return tmp_path / "home"


@pytest.fixture(scope="session")
def digits():
    """Digits under a random ReLU layer, with their images."""
    return load_features("digits", "random-relu", dim=128, images=True)
