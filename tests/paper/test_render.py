from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from exhume.paper.registry import tables
from exhume.paper.render import Page, as_json, console_table, read_comparisons
from exhume.paper.study import Study
from exhume.paper.table import Results
from tests.paper.conftest import FEATURE_TABLES


def test_page_and_json(studies: Sequence[Study], results: Results, tmp_path: Path) -> None:
    page = Page(FEATURE_TABLES, studies, results, "exhume paper run all", 60.0)
    page.write(tmp_path / "results.md", tmp_path / "figures")
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "| features | random, m = 2 | measured | 0/2 | 8 | ∞ | ∞ | – | – | – | 2 |" in text
    assert "(figures/class_replay.svg)" in text
    assert "18 LayerNorm features lifted from none" in text
    assert "This is a subsample" in text
    assert text.count("\n## ") == len(FEATURE_TABLES) + 1  # and the section on agreement
    assert "![The attacker-data experiment: gate, sizes, conditioning, cost](figures/attacker_facts.svg)" in text
    assert "[attacker_facts.csv](figures/attacker_facts.csv)" in text
    assert {path.stem for path in (tmp_path / "figures").glob("*.csv")} == {table.name for table in FEATURE_TABLES}
    assert "median κ(X)" in (tmp_path / "figures" / "attacker_facts.svg").read_text(encoding="utf-8")
    cells = page.comparisons()
    (tmp_path / "results.json").write_text(as_json(cells), encoding="utf-8")
    entries = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert set(entries[0]) == {"table", "row", "column", "published", "measured", "trials", "data", "encoder"}
    assert read_comparisons(tmp_path / "results.json") == [r for found in cells.values() for r in found]
    assert console_table(tables()["rank_threshold"], cells["rank_threshold"]).row_count == 4
