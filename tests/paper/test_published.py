from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from exhume.paper.agreement import KINDS
from exhume.paper.published import published, ratio_reasons, reasons, source
from exhume.paper.registry import tables
from exhume.paper.values import Count, Mean, parse


@pytest.mark.parametrize("name", list(tables()))
def test_published_values_fit_their_table(name: str) -> None:
    path = files("exhume.paper.published") / f"{name}.toml"
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    assert source(name) == found["source"]
    assert set(found.get("kinds", {})) <= set(tables()[name].columns)
    assert set(found.get("kinds", {}).values()) <= set(KINDS)
    for data, rows in found["rows"].items():
        assert set(data.split("+")) <= {"mnist", "cifar10"}
        for row, cells in rows.items():
            assert set(cells) <= set(tables()[name].columns), (data, row)
            for text in cells.values():
                parse(text)


def test_published_spot_checks() -> None:
    assert published("designed_recovery", "mnist", "client", "RelErr(G)") == Mean(3.87e-10, 10.99e-10)
    assert published("attacker_data", "cifar10", "float32", "sample labels") == Count(183, 500)
    assert published("attacker_data", "cifar10", "float32", "nothing") is None


def test_reasons_name_known_tables() -> None:
    for entry in [*reasons(), *ratio_reasons()]:
        assert entry["table"] in tables()
        assert entry["because"]
