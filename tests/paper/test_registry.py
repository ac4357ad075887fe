from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from exhume.paper.registry import REGISTRY, by_names, tables


def test_registry() -> None:
    assert [t.name for t in by_names(["dinov2", "rank_threshold"])] == ["rank_threshold", "dinov2"]
    assert len(by_names(["all"])) == len(tables())
    with pytest.raises(ValueError, match="did you mean 'rank_threshold'"):
        by_names(["rank_treshold"])


def test_hyphens_are_as_good_as_underscores() -> None:
    assert by_names(["rank-threshold"]) == by_names(["rank_threshold"])


def test_every_table_has_a_place_of_its_own_on_the_page() -> None:
    orders = [table.order for table in tables().values()]
    assert orders == sorted(set(orders))
    names = list(tables())
    assert (names[0], names[-1]) == ("rank_threshold", "latent_diffusion")


def test_another_package_adds_a_table_where_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    more = replace(tables()["dinov2"], name="more", order=tables()["dinov2"].order - 0.5)
    monkeypatch.setattr("exhume.registry.entry_points", lambda group: [SimpleNamespace(load=lambda: (more,))])
    REGISTRY.renew()
    try:
        names = list(tables())
        assert names.index("more") == names.index("dinov2") - 1
    finally:
        monkeypatch.undo()
        REGISTRY.renew()
