"""A slice of the committed page, recomputed: needs the ResNet-18 features that the page was made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from exhume.data.home import data_path
from exhume.jobs.store import Store
from exhume.paper.comparisons import Comparison, compared
from exhume.paper.execute import execute
from exhume.paper.feature_source import FeatureSource
from exhume.paper.prediction_change import TABLES
from exhume.paper.render import read_comparisons
from exhume.paper.study import Study
from exhume.paper.table import designed_cell
from exhume.paper.work import Job, StateBefore

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
    return Study(FeatureSource("cifar10", "resnet18"))


@pytest.fixture(scope="module")
def committed() -> list[Comparison]:
    return [cell for cell in read_comparisons(COMMITTED) if cell.data == "cifar10"]


def test_prediction_change(study: Study, committed: list[Comparison], tmp_path: Path) -> None:
    (table,) = TABLES
    found = compared(table, table.rows([study], execute(table.jobs(study), Store(tmp_path / "s"))))
    kept = [cell for cell in committed if cell.table == table.name]
    assert [(r.column, str(r.measured)) for r in found] == [(r.column, str(r.measured)) for r in kept]


def test_designed_state(study: Study, committed: list[Comparison], tmp_path: Path) -> None:
    job = Job(study.source, StateBefore(designed_cell(study)))
    found = execute([job], Store(tmp_path / "s"))[job]
    facts = {
        (r.table, r.column): r.measured for r in committed if r.row in ("designed", f"designed, m = {study.bound}")
    }
    for key, value in (
        (("rank_threshold", "κ(R)"), found["diagnostics"]["kappa_X"]),
        (("state_diagnostics", "λ_min(A)"), found["diagnostics"]["min_eigenvalue_A"]),
    ):
        assert facts[key].size == pytest.approx(value, rel=1e-6)  # type: ignore[union-attr]
    # Roundoff itself is not the same on another processor, its size is.
    error = facts["rank_threshold", "RelErr(A)"].size  # type: ignore[union-attr]
    assert found["state_error"] / 10 < error < found["state_error"] * 10  # type: ignore[operator]
