"""The engine: a server behind Flower rounds answers as one that is called directly, to the bit."""

import copy

import numpy as np
import pytest

import exhume as ex
from exhume.audit.outcome import carry_out
from exhume.audit.plan import prepare
from exhume.audit.settings import make_settings
from exhume.errors import WireError
from exhume.flower.engine import FlowerServer
from exhume.protocol.rules import AdmissionRule
from exhume.protocol.summary import Summary, Update

pytestmark = pytest.mark.flower


def audited(engine, tmp_path, **more):
    asked = {"dim": 24, "trials": 3, "jobs": 1, "kind": "record,class", "out": str(tmp_path / engine)}
    settings = make_settings(asked | {"engine": engine} | more)
    (tmp_path / engine).mkdir(exist_ok=True)
    return carry_out(prepare(settings), tmp_path / engine)


def test_an_audit_on_flower_finds_what_one_in_process_finds_to_the_bit(tmp_path):
    ours, theirs = (audited(engine, tmp_path) for engine in ("in-process", "flower"))
    assert len(ours.trials) >= 12 and all(trial.identified for trial in ours.trials)
    # Records hold labels, answers, counts and every error as a float: equal is equal to the bit.
    assert theirs.cells == ours.cells
    assert theirs.trials == ours.trials
    assert any(r.label_correct for trial in theirs.trials for r in trial.recoveries)


def test_behind_rules_too(tmp_path):
    asked = {"defence": "hardened", "attack": "designed", "kind": "record", "trials": 1, "probe": "designed"}
    ours, theirs = (audited(engine, tmp_path, **asked) for engine in ("in-process", "flower"))
    assert (theirs.cells, theirs.trials, theirs.sieges) == (ours.cells, ours.trials, ours.sieges)
    assert ours.sieges[0].messages > 0 and ours.cells[0].service.uploads > 0


class Small(AdmissionRule):
    name = "small"

    def refuse(self, update, client):
        return None if update.magnitude < 50 else "too large"


def pair():
    rng = np.random.default_rng(3)
    start = Summary.of(rng.standard_normal((40, 6)), rng.integers(0, 3, 40), 3)
    plain = ex.Server(ex.Ledger(start, 1e-2), admission=[Small()])
    return plain, FlowerServer.around(copy.deepcopy(plain), ["a", "b", "c"])


def test_receipts_heads_and_counts_are_the_same():
    plain, carried = pair()
    rng = np.random.default_rng(4)
    for k in range(6):
        round_ = [
            (name, Update.adding(Summary.of(scale * rng.standard_normal((2, 6)), rng.integers(0, 3, 2), 3)))
            for name, scale in (("b", 1.0), ("a", 30.0 if k == 3 else 1.0))
        ]
        # Nodes are summed in the order of their names, which a server that is called directly does not know.
        ours, theirs = plain.submit_round(sorted(round_)), carried.submit_round(round_)
        assert sorted(theirs, key=lambda r: r.client) == ours
        assert carried.head() == plain.head()
    assert carried.counts == plain.counts and plain.counts.refused == 1
    assert carried.ledger.summary == plain.ledger.summary


def test_copies_are_independent():
    _, carried = pair()
    carried.head()
    twin = copy.deepcopy(carried)
    twin.submit(Update.adding(Summary.of(np.eye(6)[:2], [0, 1], 3)), "a")
    assert isinstance(twin, FlowerServer)
    assert twin.head() != carried.head() and carried.counts.submissions == 0


def test_a_size_that_no_ledger_takes_does_not_travel():
    _, carried = pair()
    with pytest.raises(WireError):
        carried.submit(Update.adding(Summary.of(np.eye(7)[:2], [0, 1], 3)), "a")
    assert carried.counts.submissions == 0
