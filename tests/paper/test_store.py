from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exhume.paper.execute import execute
from exhume.paper.messages import Rounding
from exhume.paper.plan import Study
from exhume.paper.rank_threshold import TABLE
from exhume.paper.store import Store
from exhume.paper.work import Job


def test_a_second_run_computes_nothing(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "trials.jsonl"
    jobs = TABLE.jobs(study)
    first = execute(jobs, Store(path))
    size = path.stat().st_size

    def refuse(self: Job) -> None:
        raise AssertionError("this job was finished before")

    monkeypatch.setattr(Job, "run", refuse)
    assert execute(jobs, Store(path)) == first
    assert path.stat().st_size == size


def test_half_a_line_runs_again(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    jobs = TABLE.jobs(study)
    first = execute(jobs, Store(path))
    text = path.read_text()
    path.write_text(text[:-40])
    store = Store(path)
    assert len(store) == len(set(jobs)) - 1
    assert execute(jobs, store) == first
    assert len(Store(path)) == len(set(jobs))


def test_keys_tell_inputs_apart(study: Study) -> None:
    job = Job(study.source, Rounding())
    assert job.key == Job(replace(study.source, home="elsewhere"), Rounding()).key
    assert job.key != Job(study.source, Rounding(gamma=1.0)).key
    assert job.key != Job(replace(study.source, lift=18), Rounding()).key


def test_the_same_job_is_done_once(study: Study, tmp_path: Path) -> None:
    job = Job(study.source, Rounding())
    ticks: list[tuple[int, int, int]] = []
    execute([job, job], Store(tmp_path / "s"), tick=lambda *numbers: ticks.append(numbers))
    assert ticks == [(0, 0, 1), (1, 0, 1)]
    assert len((tmp_path / "s").read_text().splitlines()) == 1


def test_seconds_add_up(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    store.put("a", {}, {"x": float("inf")}, 1.5)
    store.put("b", {}, {"x": 1}, 2.0)
    assert Store(tmp_path / "s").seconds(["a", "b", "unknown"]) == 3.5
    assert store["a"] == {"x": float("inf")}
