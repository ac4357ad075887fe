from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from exhume.jobs.key import code_digest
from exhume.paper.cells import CellSpec, Split, cell
from exhume.paper.messages import HeadRounding
from exhume.paper.study import Study
from exhume.paper.table import errors, labels, successes
from exhume.paper.values import Count
from exhume.paper.work import Job, _flat


def test_keys_tell_inputs_apart(study: Study) -> None:
    job = Job(study.source, HeadRounding())
    assert job.key == Job(replace(study.source, home="elsewhere"), HeadRounding()).key
    assert job.key != Job(study.source, HeadRounding(gamma=1.0)).key
    assert job.key != Job(replace(study.source, lift=18), HeadRounding()).key


def test_keys_change_with_the_code(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(study.source, HeadRounding())
    before = job.key
    assert code_digest("exhume.paper.messages") != code_digest("exhume.paper.cells")
    monkeypatch.setattr("exhume.jobs.key.code_digest", lambda module: f"other code of {module}")
    assert job.key != before


def test_failures_stay_in_the_denominator(study: Study) -> None:
    live = cell(study.source, CellSpec("random", "float64", Split(0, 4, 2.0), responses=2))
    trial = live.trial(np.array([3]))
    assert not trial.identified
    trials = [_flat(trial)]
    assert successes(trials) == labels(trials) == Count(0, 1)
    assert errors(trials, "relerr_gram") is None


def test_replayed_ledger_differs_by_the_blocks_own_error(study: Study) -> None:
    live = cell(study.source, CellSpec("own_data", "float64", Split(0, 4, 2.0), responses=6))
    rows = np.flatnonzero(live.scenario.labels == 1)
    trial = live.trial(rows)
    replay, found = trial.replays[0], trial.recovery("difference")
    assert found is not None
    share = np.linalg.norm(live.scenario.summary(rows).gram) / np.linalg.norm(live.scenario.total.gram)
    # The cancellation leaves roundoff of its own, hence not exactly.
    assert replay.ledger_error_gram == pytest.approx(found.relerr_gram * share, rel=0.2)
    assert replay.ledger_error_gram_psd is not None
    designed = cell(study.source, CellSpec("designed", "float64", Split(0, 4, 2.0))).trial(rows).replays[0]
    assert designed.head_error_psd is None
    assert designed.ledger_error_gram is not None
