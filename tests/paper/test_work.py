from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from exhume.jobs.key import code_digest
from exhume.paper.cells import CellSpec, Split, cell
from exhume.paper.counting import ExpectedRank
from exhume.paper.messages import HeadRounding, HonestRequests
from exhume.paper.study import Study
from exhume.paper.table import errors, labels, successes
from exhume.paper.values import Count
from exhume.paper.work import Job, ResponseStack, _flat
from exhume.protocol.ledger import Ledger
from exhume.protocol.summary import Summary, Update


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


def test_honest_head_changes_are_those_of_a_server_that_deletes_each_row(study: Study) -> None:
    found = study.source.load()
    total = Summary.of(found.train_features, found.train_labels, found.classes)
    changes = []
    for row in range(len(found.train_features)):
        ledger = Ledger(total, 1e-3)
        start = ledger.head()
        one = slice(row, row + 1)
        ledger.apply(Update.deleting(Summary.of(found.train_features[one], found.train_labels[one], found.classes)))
        changes.append(np.linalg.norm(ledger.head() - start))
    assert HonestRequests().run(study.source)["head_p99"] == pytest.approx(np.percentile(changes, 99), rel=1e-9)


def test_the_expected_rank_is_the_rank_of_the_answers(study: Study) -> None:
    seen = set()
    for seed in range(6):
        spec = CellSpec("own_data", "float64", Split(seed, 4, 0.3), responses=3, sequence=seed)
        for deleted in range(4):
            found = ExpectedRank(spec, deleted).run(study.source)
            assert ResponseStack(spec, deleted).run(study.source)["ranks"][-1] == found["rank"]
            seen.add((found["first"], found["rank"]))
    assert {(0, 12), (1, 11), (3, 9)} <= seen
