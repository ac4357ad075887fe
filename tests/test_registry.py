from dataclasses import replace
from types import SimpleNamespace

import pytest

from exhume.data import encoders, sets
from exhume.data.sets import DataSet
from exhume.errors import InputError
from exhume.registry import Registry, discover


def found_with(monkeypatch, entry):
    points = [SimpleNamespace(load=lambda: entry)]
    monkeypatch.setattr("exhume.registry.entry_points", lambda group: points)
    return discover("exhume.data.sets", "DATA_SETS", "exhume.data_sets", DataSet)


def test_every_module_is_found_by_name():
    assert set(sets.REGISTRY) == {"digits", "mnist", "fashion-mnist", "cifar10", "tinyimagenet"}
    assert all(name == entry.name for name, entry in sets.REGISTRY.items())
    assert all(name == entry.name for name, entry in encoders.REGISTRY.items())


def test_other_packages_add_theirs(monkeypatch):
    more = replace(sets.by_name("digits"), name="more-digits")
    assert found_with(monkeypatch, more)["more-digits"] is more


@pytest.mark.parametrize("entry", [sets.by_name("digits"), SimpleNamespace(name="odd"), None])
def test_nothing_is_overwritten_or_odd(monkeypatch, entry):
    with pytest.raises(InputError, match="entries of DataSet with names of their own"):
        found_with(monkeypatch, entry)


def test_a_name_is_found_with_hyphens_or_underscores():
    assert sets.REGISTRY.find("fashion_mnist") is sets.REGISTRY["fashion-mnist"]


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(InputError, match=r"encoder must be one of .*did you mean 'resnet18'"):
        encoders.REGISTRY.find("resnet")


def test_one_name_in_two_spellings_is_taken(monkeypatch):
    with pytest.raises(InputError, match="names of their own"):
        found_with(monkeypatch, replace(sets.by_name("digits"), name="fashion_mnist"))


def test_an_entry_point_may_bring_several(monkeypatch):
    several = tuple(replace(sets.by_name("digits"), name=name) for name in ("one", "two"))
    assert {"one", "two"} <= set(found_with(monkeypatch, several))


def test_classes_are_entries_too(monkeypatch):
    class Odd(DataSet):
        name = "odd"

    assert found_with(monkeypatch, Odd)["odd"] is Odd


def test_nothing_is_searched_before_it_is_needed(monkeypatch):
    made = Registry("thing", "a.package.that.is.not.there", "THINGS", "exhume.things", DataSet)
    with pytest.raises(ModuleNotFoundError):
        len(made)
