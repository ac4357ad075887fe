from __future__ import annotations

from pathlib import Path

import pytest

from exhume.jobs.run import CHUNK
from exhume.jobs.store import Store
from exhume.paper.designed_precision import TABLES
from exhume.paper.execute import _group, default_store, execute
from exhume.paper.messages import HeadRounding
from exhume.paper.rank_threshold import TABLES as RANK
from exhume.paper.study import Study
from exhume.paper.table import Results, designed_walks, own_deletions
from exhume.paper.work import Job


@pytest.fixture(scope="module")
def jobs(study: Study) -> list[Job]:
    return [*TABLES[0].jobs(study), *own_deletions(study, "float32", "record")]


def test_processes_give_the_same_bits(jobs: list[Job], results: Results, tmp_path: Path) -> None:
    assert execute(jobs, Store(tmp_path / "s"), workers=2) == {job: results[job] for job in jobs}


def test_dask_gives_the_same_bits(jobs: list[Job], results: Results, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the dask extra is not installed")
    assert execute(jobs, Store(tmp_path / "s"), workers=2, backend="dask") == {job: results[job] for job in jobs}


def test_a_second_run_computes_nothing(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "trials.jsonl"
    jobs = RANK[0].jobs(study)
    first = execute(jobs, Store(path))
    size = path.stat().st_size

    def refuse(self: Job) -> None:
        raise AssertionError("this job was finished before")

    monkeypatch.setattr(Job, "run", refuse)
    assert execute(jobs, Store(path)) == first
    assert path.stat().st_size == size


def test_the_same_job_is_done_once(study: Study, tmp_path: Path) -> None:
    job = Job(study.source, HeadRounding())
    ticks: list[tuple[int, int, int]] = []
    execute([job, job], Store(tmp_path / "s"), progress=lambda *numbers: ticks.append(numbers))
    assert ticks == [(0, 0, 1), (1, 0, 1)]
    assert len((tmp_path / "s").read_text().splitlines()) == 1


def test_deletions_of_one_cell_travel_together_and_walks_alone(study: Study) -> None:
    deletions = own_deletions(study, "float32", "record", [0])
    assert len({_group(job) for job in deletions}) == 1 < CHUNK
    assert {_group(job) for job in designed_walks(study)} == {None}


def test_results_are_kept_in_the_home_folder(tmp_path: Path) -> None:
    assert default_store(tmp_path) == tmp_path / "paper" / "trials.jsonl"
