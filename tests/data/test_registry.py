from dataclasses import replace
from types import SimpleNamespace

import pytest

from exhume.data import encoders, sets
from exhume.data._registry import discover
from exhume.data.sets import DataSet
from exhume.errors import InputError


def found_with(monkeypatch, entry):
    points = [SimpleNamespace(load=lambda: entry)]
    monkeypatch.setattr("exhume.data._registry.entry_points", lambda group: points)
    return discover(sets, "DATA_SETS", "exhume.data_sets", DataSet)


def test_every_module_is_found_by_name():
    assert set(sets.registry()) == {"digits", "mnist", "fashion-mnist", "cifar10"}
    assert all(name == entry.name for name, entry in sets.registry().items())
    assert all(name == entry.name for name, entry in encoders.registry().items())


def test_other_packages_add_theirs(monkeypatch):
    more = replace(sets.by_name("digits"), name="more-digits")
    assert found_with(monkeypatch, more)["more-digits"] is more


@pytest.mark.parametrize("entry", [sets.by_name("digits"), SimpleNamespace(name="odd"), None])
def test_nothing_is_overwritten_or_odd(monkeypatch, entry):
    with pytest.raises(InputError, match="entries of DataSet with names of their own"):
        found_with(monkeypatch, entry)
