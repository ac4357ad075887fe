"""A small federation whose outcome is known in advance: 12 dimensions, 4 classes, so that ceil(d/c) is 3."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from exhume.jobs.store import Store
from exhume.paper.execute import execute
from exhume.paper.feature_source import FeatureSource
from exhume.paper.registry import tables
from exhume.paper.study import Sizes, Study
from exhume.paper.table import Results

FEATURE_TABLES = [table for table in tables().values() if table.lacks is None]
"""Those that need features only; tables of pictures have tests of their own."""

SIZES = Sizes(
    records=6,
    classes=4,
    partitions=2,
    clients=3,
    seeds=2,
    own_records=3,
    own_clients=2,
    sequences=2,
    scale_records=2,
    calibration=300,
    held_out=400,
)


@pytest.fixture(scope="session")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 650)
    rows = np.abs(rng.standard_normal((650, 12))) + np.eye(12)[labels]
    path = tmp_path_factory.mktemp("features") / "small.npz"
    np.savez(
        path,
        train_features=rows[:600],
        train_labels=labels[:600],
        test_features=rows[600:],
        test_labels=labels[600:],
    )
    return path


@pytest.fixture(scope="session")
def study(features: Path) -> Study:
    return Study(FeatureSource("features", "none", path=str(features)), SIZES, members=4, alpha=2.0)


@pytest.fixture(scope="session")
def studies(study: Study) -> Sequence[Study]:
    return [study]


@pytest.fixture(scope="session")
def results(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Results:
    store = Store(tmp_path_factory.mktemp("store") / "trials.jsonl")
    return execute([job for table in FEATURE_TABLES for job in table.jobs(study)], store)
