"""A folder with everything that a command line can get wrong, and an empty home folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.data.conftest import home

__all__ = ["home"]

TARGETS = """
import sys
from exhume import Head
import numpy as np

number = 3

class Answers:
    def __init__(self, head=None, submit=None):
        self._head, self._submit = head, submit
    def head(self):
        return self._head() if self._head else Head(np.eye(3, 2), "float64", 1)
    def submit(self, update):
        return self._submit() if self._submit else self.head()

def fails(): raise ValueError("no connection\\nto the server")
def leaves(): sys.exit(0)

def raises(): fails()
def exits(): leaves()
def exits_with_words(): sys.exit("bye")
def needs(more): return Answers()
def nothing(): return None
def a_number(): return 3
def head_raises(): return Answers(head=fails)
def head_exits(): return Answers(head=leaves)
def head_is_nothing(): return Answers(head=lambda: None)
def head_is_an_array(): return Answers(head=lambda: np.eye(3))
def submit_raises(): return Answers(submit=fails)
def submit_exits(): return Answers(submit=leaves)
def submit_is_nothing(): return Answers(submit=lambda: None)
def deaf(): return Answers()
def a_class(): return Answers
"""

FILES = {
    "a-file": "here",
    "empty.npz": b"",
    "words.npz": b"not an archive",
    "empty.npy": b"",
    "words.safetensors": b"\xff" * 40,
    "empty.safetensors": b"",
    "table.csv": "1,2\n",
    "broken.toml": "trials = [\n",
    "unknown.toml": "trails = 3\n",
    "wrong.toml": 'trials = "many"\n',
    "zero.toml": "trials = 0\n",
    "no-out.toml": 'out = ""\n',
    "null-out.toml": 'out = "a\\u0000b"\n',
    "table.toml": "[trials]\nmany = 3\n",
    "latin.toml": b"data = '\xe4'\n",
    "deep.toml": "data = " + "[" * 5000 + "]" * 5000,
    "no-rule.toml": 'version = 1\n[[admission]]\nrule = "duplicats"\n',
    "no-option.toml": 'version = 1\n[[admission]]\nrule = "duplicates"\nsizes = 3\n',
    "version.toml": "version = 9\n",
    "broken/results.json": '[{"table": ',
    "list/results.json": "[3]",
    "object/results.json": '{"table": 3}',
    "fields/results.json": '[{"published": null, "measured": null, "what": 3}]',
    "deep/results.json": "[" * 100_000,
    "latin/results.json": b"[\xe4]",
    "empty/results.json": "",
    "folder-results/results.json/x": "",
    "store-folder/cells.jsonl/x": "",
    "store-folder/.trials/trials.jsonl/x": "",
    "store-folder/paper/trials.jsonl/x": "",
    "edge_targets.py": TARGETS,
    "edge_syntax.py": "def (",
    "edge_exits.py": "import sys; sys.exit(0)",
    "edge_raises.py": "raise OSError(5, 'no disk')",
    "edge_imports.py": "import no_such_package_at_all",
}


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Broken files of every kind, and features that are broken in their own ways."""
    place = tmp_path_factory.mktemp("ground")
    for name, content in FILES.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    (place / "folder").mkdir()
    rows, labels = np.ones((20, 3)), np.arange(20) % 2
    good = {"features": rows, "labels": labels}
    for name, changed in {
        "good": {},
        "nan": {"features": np.full((20, 3), np.nan)},
        "flat": {"features": np.ones(20)},
        "words": {"features": np.full((20, 3), "x")},
        "complex": {"features": rows * 1j},
        "few-labels": {"labels": labels[:-1]},
        "real-labels": {"labels": labels + 0.5},
        "negative-labels": {"labels": labels - 3},
        "rowless": {"features": rows[:0], "labels": labels[:0]},
        "objects": {"features": np.array([object()] * 20)},
        "narrow-test": {"test_features": rows[:, :2], "test_labels": labels},
        "half-test": {"test_features": rows},
        "huge-label": {"labels": labels + 2**40},
    }.items():
        np.savez(place / f"mine-{name}.npz", **{**good, **changed})
    np.savez(place / "mine-nameless.npz", rows)
    np.savez(place / "mine-none.npz")
    np.save(place / "rows.npy", rows)
    np.save(place / "long.npy", np.arange(99))
    os.mkfifo(place / "pipe") if hasattr(os, "mkfifo") else None
    return place
