"""The walk of one probe from the command line to the head and back, as docs/architecture.md tells it."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MOST = 47


def test_one_probe_crosses_few_files_and_the_page_names_them(tmp_path):
    command = [sys.executable, "-m", "tests.walk", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    files = [line for line in done.stderr.splitlines() if line.endswith(".py")]
    assert len(files) <= MOST, files
    # It is the walk that is meant: through the server and back to the estimate.
    order = [files.index(name) for name in ("cli/audit.py", "protocol/server.py", "attack/estimate/direct.py")]
    assert order == sorted(order) and files[0] == "cli/main.py"
    told = re.findall(r"^\| `([\w/]+\.py)` \|", PAGE, flags=re.MULTILINE)
    assert sorted(told) == sorted(files)
    assert f"the walk crosses {len(files)} files; `tests/test_walk.py` fails above {MOST}" in PAGE
