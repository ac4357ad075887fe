"""A key must change with every line that a result can depend on, and with no other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import exhume
from exhume.errors import InputError
from exhume.jobs.key import code_digest, digest_of, key_of
from exhume.jobs.sources import Package

SOURCE = Path(exhume.__file__).parent

DIGEST = "from exhume.jobs.key import code_digest; print(code_digest('exhume.experiment'))"


def digest(folder: Path) -> str:
    """Return the digest of the experiment as it stands in a copy of the package."""
    return digest_of("exhume.experiment", lambda name: Package(name, folder / name))


def installed_digest(folder: Path) -> str:
    """Ask a new process that imports the copy, as a later run would."""
    done = subprocess.run([sys.executable, "-c", DIGEST], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(SOURCE, tmp_path / "exhume", ignore=shutil.ignore_patterns("__pycache__"))
    # One module that stands for every experiment: it reaches each room, one of them from inside a function.
    (tmp_path / "exhume" / "experiment.py").write_text(
        "from exhume.data import dirichlet\n"
        "from exhume.paper.table import Table\n"
        "from exhume.simulate.trial import Trial\n"
        "def work(shared, spec):\n"
        "    from exhume.defence import hardened\n"
        "    return {}\n"
    )
    return tmp_path


def edit(path: Path) -> None:
    """Change one line, and nothing that Python would notice."""
    text = path.read_text()
    assert text
    path.write_text(text + "# another line\n")


ROOMS = ("attack", "data", "defence", "paper", "protocol", "simulate")


def test_one_line_in_any_room_changes_the_key(copy: Path) -> None:
    seen = {digest(copy)}
    package = copy / "exhume"
    in_each_room = [package / "data/partition.py", package / "simulate/trial.py", package / "paper/table.py"]
    in_each_room += [package / "protocol/ledger.py", package / "defence/release/noise.py", package / "numerics.py"]
    in_each_room += [package / "attack/session.py", package / "data/sets/digits.py"]
    for number, path in enumerate(in_each_room, start=2):
        edit(path)
        seen.add(digest(copy))
        assert len(seen) == number, path
    assert {path.relative_to(package).parts[0] for path in in_each_room} >= set(ROOMS)


def test_what_only_shows_results_changes_nothing(copy: Path) -> None:
    before = digest(copy)
    for path in (copy / "exhume/cli").glob("*.py"):
        edit(path)
    shown = list((copy / "exhume").rglob("*.j2"))
    assert shown
    for path in [*shown, copy / "exhume/jobs/progress.py", copy / "exhume/paper/render.py"]:
        edit(path)
    (copy / "exhume/data/__pycache__").mkdir(exist_ok=True)
    (copy / "exhume/data/__pycache__/partition.cpython-311.pyc").write_bytes(b"other")
    (copy / "exhume/data/.partition.py.swp").write_bytes(b"an editor's")
    assert digest(copy) == before


def test_a_new_module_that_a_registry_would_find_changes_the_key(copy: Path) -> None:
    before = digest(copy)
    (copy / "exhume/data/sets/_private.py").write_text("DATA_SETS = ()\n")
    assert digest(copy) == before
    (copy / "exhume/data/sets/toy.py").write_text("DATA_SETS = ()\n")
    assert digest(copy) != before


def test_data_files_beside_the_code_count(copy: Path) -> None:
    before = digest(copy)
    (copy / "exhume/protocol/constants.toml").write_text("gamma = 1\n")
    assert digest(copy) != before


def test_a_plug_in_counts_with_its_helpers_and_its_version(copy: Path) -> None:
    alone = installed_digest(copy)
    (copy / "toy").mkdir()
    (copy / "toy/__init__.py").write_text("")
    (copy / "toy/probe.py").write_text("from .helper import SCALE\nPROBE = SCALE\n")
    (copy / "toy/helper.py").write_text("SCALE = 1\n")
    info = copy / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    assert installed_digest(copy) == alone
    (info / "entry_points.txt").write_text("[exhume.probes]\ntoy = toy.probe:PROBE\n")
    seen = {alone, installed_digest(copy)}
    for path, text in (
        (copy / "toy/helper.py", "SCALE = 2\n"),
        (info / "METADATA", "Metadata-Version: 2.1\nName: toy\nVersion: 1.1\n"),
    ):
        path.write_text(text)
        seen.add(installed_digest(copy))
    assert len(seen) == 4


def test_libraries_count_by_their_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    code_digest.cache_clear()
    before = code_digest("exhume.numerics")
    monkeypatch.setattr("exhume.jobs.key.version", lambda name: "0.0")
    code_digest.cache_clear()
    after = code_digest("exhume.numerics")
    code_digest.cache_clear()
    assert after != before


def test_the_digest_is_the_same_wherever_the_code_lies(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(copy / "exhume", other / "exhume")
    assert digest(copy) == digest(other) == installed_digest(other)


def work(shared: object, spec: object) -> dict[str, int]:
    return {}


def other_work(shared: object, spec: object) -> dict[str, int]:
    return {}


@dataclass(frozen=True)
class Spec:
    rows: tuple[int, ...]


def test_keys_tell_work_and_inputs_apart() -> None:
    inputs: dict[str, object] = {"a": 1, "b": [0.5, None, "x"]}
    key = key_of(work, inputs)
    assert key == key_of(work, dict(reversed(inputs.items())))
    others = [
        key_of(other_work, inputs),
        key_of(work, {**inputs, "a": 1.0}),
        key_of(work, {**inputs, "a": Spec((1,))}),
        key_of(work, {**inputs, "a": Spec((2,))}),
        key_of(work, {**inputs, "a": np.arange(3)}),
        key_of(work, {**inputs, "a": np.arange(3.0)}),
        key_of(work, {**inputs, "a": np.arange(4)[:, None]}),
        key_of(work, {**inputs, "a": np.arange(4)}),
    ]
    assert len({key, *others}) == 1 + len(others)
    assert key_of(work, {"a": np.float64(0.5), "b": np.int64(2)}) == key_of(work, {"a": 0.5, "b": 2})


def test_what_has_no_key_is_refused() -> None:
    with pytest.raises(InputError, match="inputs must be plain data"):
        key_of(work, {"a": object()})
    with pytest.raises(InputError, match="a function at the top of a module"):
        key_of(lambda shared, spec: {}, {})
    with pytest.raises(InputError, match="can be imported again"):
        code_digest("__main_that_is_not__")
