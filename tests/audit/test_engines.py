"""Engines: named like everything else, loaded only where they are asked for."""

import importlib.util
import subprocess
import sys

import pytest

from exhume.audit.engines import ENGINES
from exhume.audit.plan import prepare
from exhume.audit.settings import make_settings
from exhume.errors import InputError, MissingExtraError


def test_an_unknown_engine_is_refused_by_name():
    with pytest.raises(InputError, match="did you mean 'flower'"):
        make_settings({"engine": "flour"})


def test_the_default_calls_the_server_directly():
    assert prepare(make_settings({"dim": 8})).carrier is None
    assert make_settings({"engine": "flower"}).numbers() != make_settings({}).numbers()


@pytest.mark.skipif(importlib.util.find_spec("flwr") is not None, reason="Flower is installed here")
def test_an_engine_that_is_not_installed_is_told_before_any_work():
    with pytest.raises(MissingExtraError, match=r"exhume\[flower\]"):
        prepare(make_settings({"engine": "flower"}))


def test_nobody_loads_an_engine_by_importing():
    code = "import sys, exhume.audit.plan, exhume.cli.main; print([m for m in sys.modules if m.startswith('flwr')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert set(ENGINES) == {"in-process", "flower"}
