from __future__ import annotations

import sys
from pathlib import Path

import pytest

from exhume.errors import InputError, MissingExtraError
from exhume.paper.designed_precision import TABLE as PRECISION
from exhume.paper.execute import execute
from exhume.paper.plan import Study
from exhume.paper.store import Store
from exhume.paper.table import Results, own_deletions
from exhume.paper.work import Job


@pytest.fixture(scope="module")
def jobs(study: Study) -> list[Job]:
    return [*PRECISION.jobs(study), *own_deletions(study, "float32", "sample")]


def test_processes_give_the_same_bits(jobs: list[Job], results: Results, tmp_path: Path) -> None:
    assert execute(jobs, Store(tmp_path / "s"), workers=2) == {job: results[job] for job in jobs}


def test_dask_gives_the_same_bits(jobs: list[Job], results: Results, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the dask extra is not installed")
    assert execute(jobs, Store(tmp_path / "s"), workers=2, backend="dask") == {job: results[job] for job in jobs}


def test_dask_takes_a_running_scheduler(jobs: list[Job], results: Results, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the dask extra is not installed")
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        found = execute(jobs[:2], Store(tmp_path / "s"), backend="dask", scheduler=cluster.scheduler_address)
    assert found == {job: results[job] for job in jobs[:2]}


def test_dask_missing_says_which_extra(jobs: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with pytest.raises(MissingExtraError, match=r"exhume\[dask\]"):
        execute(jobs, Store(tmp_path / "s"), backend="dask")


def test_unknown_backend(jobs: list[Job], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="joblib"):
        execute(jobs, Store(tmp_path / "s"), backend="jobllib")
