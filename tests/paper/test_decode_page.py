"""The tables of docs/decode.md are those of docs/results/results.json."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("decode_tables", ROOT / "tools/decode_tables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_says_what_was_measured(tool: Any) -> None:
    found, page = json.loads(tool.RESULTS.read_text("utf-8")), tool.PAGE.read_text("utf-8")
    assert tool.rewritten(page, tool.cells_of(found)) == page, "run: python tools/decode_tables.py"
    row, column = "ridge, public images", "re-identified, pixels"
    (cell,) = (c for c in found if (c["row"], c["column"], c["data"]) == (row, column, "cifar10"))
    cell["measured"]["count"] += 100
    assert f"| {cell['measured']['count']} |" in tool.rewritten(page, tool.cells_of(found))


def test_a_page_without_a_place_for_a_table_is_refused(tool: Any) -> None:
    with pytest.raises(SystemExit, match="must have one place for the table local"):
        tool.rewritten("# Decode", {})
