import os
import signal
import sys

# One BLAS thread a process: NumPy's and SciPy's wheels bring separate pools, which fight each other.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

# A shell without job control starts what runs in its background with these ignored, and children inherit that.
for ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored is signal.SIGINT else signal.SIG_DFL)

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

from tests import toys as toy_package  # noqa: E402

settings.register_profile(
    "exhume", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("exhume")


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """The folder of an installed package that follows the recipes of CONTRIBUTING.md."""
    folder = tmp_path / "site"
    folder.mkdir()
    toy_package.install(folder)
    monkeypatch.syspath_prepend(str(folder))
    toy_package.renew()
    yield folder
    monkeypatch.undo()
    toy_package.renew()
    for name in [name for name in sys.modules if name.split(".")[0] == "toy"]:
        del sys.modules[name]
