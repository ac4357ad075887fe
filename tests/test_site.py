"""The documentation site: it builds without a warning, and its snippets run."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUN = [
    ROOT / "docs" / "quickstart.md",
    ROOT / "docs" / "tutorials" / "choose-a-defence.md",
    *sorted((ROOT / "docs" / "concepts").glob("*.md")),
]


@pytest.mark.extras
@pytest.mark.skipif(importlib.util.find_spec("myst_nb") is None, reason="needs the extra docs")
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "reference" / "commands.html").exists()


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_the_snippets_of_a_page_run(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    names = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    if page.stem == "quickstart":
        assert "7 True" in capsys.readouterr().out
