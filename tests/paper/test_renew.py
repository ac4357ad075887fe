from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from exhume.cli.main import app
from exhume.errors import DataError
from exhume.paper.registry import by_names
from exhume.paper.render import read_comparisons
from exhume.paper.renew import rendered_page, renewed_page

OLD = "# Page\n\nHead.\n\n## A (x)\n\n`a`. About a.\n\nold a\n\n## B (x)\n\n`b`. About b.\n\nold b\n"
NEW = "# Page\n\nOther head.\n\n## B (y)\n\n`b`. About b.\n\nnew b\n\n## C (y)\n\n`c`. About c.\n\nnew c\n"


def test_only_the_named_sections_change() -> None:
    page = renewed_page(OLD, NEW, ["b", "c"], "exhume paper run b c")
    assert page.startswith("# Page\n\nHead.\n\n## A (x)\n\n`a`. About a.\n\nold a\n\n## B (y)")
    assert "old b" not in page and page.index("new b") < page.index("new c") and "Other head" not in page
    assert page.count("Renewed by `exhume paper run b c`.") == 2
    assert renewed_page(page, NEW, ["b", "c"], "exhume paper run b c") == page
    with pytest.raises(DataError, match="no section a"):
        renewed_page(OLD, NEW, ["a"], "x")


def test_the_command_keeps_the_other_tables(features: Path, tmp_path: Path) -> None:
    options = ["--features", str(features), "--quick", "--clients", "4", "--alpha", "2", "--home", str(tmp_path / "h")]
    options += ["--size", "sequences=1", "--out", str(tmp_path)]
    for names in (["rank_threshold", "prediction_change"], ["prediction_change", "class_replay", "--renew"]):
        done = CliRunner().invoke(app, ["paper", "run", *names, *options], catch_exceptions=False)
        assert done.exit_code == 0
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert [page.count(f"\n`{name}`. ") for name in ("rank_threshold", "prediction_change", "class_replay")] == [
        1,
        1,
        1,
    ]
    tables = {cell.table for cell in read_comparisons(tmp_path / "results.json")}
    assert tables == {"rank_threshold", "prediction_change", "class_replay"}
    # The page is written again from the cells alone, and is the same one.
    again = CliRunner().invoke(app, ["paper", "page", "--out", str(tmp_path)], catch_exceptions=False)
    assert again.exit_code == 0 and "written: " in again.output
    assert (tmp_path / "results.md").read_text(encoding="utf-8") == page
    (tmp_path / "results.md").write_text(page.replace("| 0/1 |", "| 9/1 |").replace("# The paper's", "# My"))
    CliRunner().invoke(app, ["paper", "page", "--out", str(tmp_path)], catch_exceptions=False)
    assert (tmp_path / "results.md").read_text(encoding="utf-8") == page.replace("# The paper's", "# My")


def test_a_page_without_the_section_of_a_table_is_refused() -> None:
    (table,) = by_names(["answers"])
    with pytest.raises(DataError, match="no section answers"):
        rendered_page(OLD, [table], {"answers": []}, "results")
