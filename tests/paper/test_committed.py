"""A slice of the committed page, recomputed: needs the ResNet-18 features that the page was made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from exhume.data.home import data_path
from exhume.paper.execute import execute
from exhume.paper.plan import Study
from exhume.paper.prediction_change import TABLE as PREDICTION
from exhume.paper.records import Record, records
from exhume.paper.render import read_records
from exhume.paper.source import Source
from exhume.paper.store import Store
from exhume.paper.table import Table, designed_cell
from exhume.paper.work import Job, State

COMMITTED = Path(__file__).parents[2] / "docs" / "results" / "results.json"
FILE = Path("features") / "cifar10_resnet18_train.npz"

pytestmark = [
    pytest.mark.skipif(not COMMITTED.is_file(), reason="no committed results"),
    pytest.mark.skipif(
        not any((folder / FILE).is_file() for folder in data_path()),
        reason="EXHUME_DATA_PATH has no precomputed CIFAR-10 features",
    ),
]


@pytest.fixture(scope="module")
def study() -> Study:
    return Study(Source("cifar10", "resnet18"))


@pytest.fixture(scope="module")
def committed() -> list[Record]:
    return [record for record in read_records(COMMITTED) if record.data == "cifar10"]


def test_prediction_change(study: Study, committed: list[Record], tmp_path: Path) -> None:
    table: Table = PREDICTION
    found = records(table, table.rows([study], execute(table.jobs(study), Store(tmp_path / "s"))))
    kept = [record for record in committed if record.table == table.name]
    assert [(r.column, str(r.measured)) for r in found] == [(r.column, str(r.measured)) for r in kept]


def test_designed_state(study: Study, committed: list[Record], tmp_path: Path) -> None:
    job = Job(study.source, State(designed_cell(study)))
    found = execute([job], Store(tmp_path / "s"))[job]
    facts = {
        (r.table, r.column): r.measured for r in committed if r.row in ("designed", f"designed, m = {study.bound}")
    }
    for key, value in (
        (("rank_threshold", "κ(R)"), found["diagnostics"]["kappa_X"]),
        (("state_diagnostics", "λ_min(A)"), found["diagnostics"]["min_eigenvalue_A"]),
    ):
        assert facts[key].level == pytest.approx(value, rel=1e-6)  # type: ignore[union-attr]
    # Roundoff itself is not the same on another processor, its size is.
    error = facts["rank_threshold", "RelErr(A)"].level  # type: ignore[union-attr]
    assert found["state_error"] / 10 < error < found["state_error"] * 10  # type: ignore[operator]
