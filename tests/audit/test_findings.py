import numpy as np
import pytest

from exhume.audit.findings import levels_reached
from exhume.audit.levels import LEVELS, THRESHOLDS, at_least, worst
from exhume.audit.records import RecoveryRecord, TrialRecord
from exhume.simulate.visibility import judge_messages


def trial(*, gram=1e-9, feature=1e-9, right=True, replay=1e-9, change=0.01, guess=0.5, found=True):
    own = RecoveryRecord(
        recovery="difference",
        relerr_gram=gram,
        relerr_moment=gram,
        relerr_feature=feature,
        label_correct=right,
        replay_head_error=replay,
        responses_first=1,
        responses_next=1,
        messages_first=1,
        messages_next=1,
    )
    return TrialRecord(
        probe="p",
        server="bare",
        precision="float64",
        kind="record",
        number=0,
        rows=1,
        identified=found,
        feature_guess_error=guess,
        deletion_head_change=change,
        recoveries=(own,) if found else (),
    )


@pytest.mark.parametrize(
    ("made", "p", "level"),
    [
        ({}, 1e-9, "replay"),
        ({"replay": 0.005}, 1e-9, "feature"),
        ({"replay": 0.005, "feature": 0.2, "gram": 0.3}, 1e-9, "label"),
        ({"replay": 0.005, "feature": 0.2, "gram": 0.05}, 0.2, "aggregate"),
        ({"replay": 0.005, "feature": 0.2, "gram": 0.3}, 0.2, "none"),
        ({"feature": 0.2, "gram": 60.0}, 0.2, "none"),  # the head came back with wrong sums: digs up nothing
        ({"replay": None}, 1e-9, "feature"),
        ({"change": 0.0}, 1e-9, "feature"),
        ({"guess": 1e-12, "replay": 0.005, "gram": 0.3}, 1e-9, "label"),  # no better than the attacker's own guess
        ({"right": False, "replay": 0.005, "gram": 0.3}, 0.2, "none"),
        ({"found": False}, 1.0, "none"),
    ],
)
def test_levels_follow_the_thresholds(made, p, level):
    assert levels_reached([trial(**made)] * 4, "difference", p)[-1] == level


def test_failures_stay_in_the_denominator():
    good, bad = trial(), trial(found=False)
    assert levels_reached([good, good, bad, bad], "difference", None)[-1] == "replay"
    assert levels_reached([good, bad, bad], "difference", None) == ("none",)


def test_levels_are_ordered():
    assert worst(["none", "feature", "label"]) == "feature"
    assert worst([]) == "none"
    assert at_least("replay", "label")
    assert not at_least("aggregate", "label")
    assert LEVELS[0] == "none"
    assert THRESHOLDS.label_p <= 1e-3


def test_findings_of_a_small_audit(small):
    findings = small.done.report.findings
    assert len(findings) == 2 * 2 * (2 + 1 + 1)  # probes x heads x (two estimators for a record, one for the rest)
    for f in findings:
        assert f.identified == f.trials
        assert (f.labels_correct is None) == (f.kind != "record")
        assert f.relerr_gram.median <= f.relerr_gram.max
        assert f.responses_next < f.responses_first
        if f.precision == "float64":
            assert f.severity == "replay"
            assert f.relerr_gram.max < 1e-6


def test_costs_are_counted_as_the_paper_counts(small):
    by = {(f.probe, f.recovery, f.kind): f for f in small.done.report.findings if f.precision == "float64"}
    m = 2  # ceil(16 / 10)
    designed = by["designed", "difference", "record"]
    # 2 m probe responses, baseline, two cancellations, deletion, replay; then m, cancellation, deletion, replay.
    assert (designed.responses_first, designed.responses_next) == (2 * m + 5, m + 3)
    assert (designed.messages_first, designed.messages_next) == (2 * m + 3, m + 2)
    quick = by["designed", "rank-one", "record"]
    assert (quick.responses_first, quick.responses_next) == (m + 4, 2)


def test_no_trial_breaks_the_amplification_bound(small):
    rows = [line.split(",") for line in (small.out / "trials.csv").read_text().splitlines()]
    at = {name: i for i, name in enumerate(rows[0])}
    shown = [row for row in rows[1:] if row[at["recovery"]] == "difference"]
    assert shown
    assert all(float(r[at["relerr_gram"]]) <= float(r[at["amplification"]]) * (1 + 1e-9) for r in shown)


def test_designed_probes_stand_out_and_honest_rows_do_not(small):
    cells = {c.probe: c for c in small.done.report.cells}
    assert cells["designed"].flagged == cells["designed"].messages
    assert cells["designed"].magnitude_ratio > 100
    assert cells["own-data"].magnitude_ratio < 2
    assert all(c.false_positives < 0.06 for c in cells.values())


def test_honest_magnitudes_are_those_of_updates():
    from exhume.attack.probes import own_data
    from exhume.protocol.summary import Summary, Update
    from exhume.simulate.scenario import Scenario
    from exhume.simulate.visibility import _honest

    rng = np.random.default_rng(0)
    features, labels = rng.standard_normal((30, 4)), rng.integers(0, 3, 30)
    scenario = Scenario(features, labels, 3, (np.arange(10), np.arange(10, 30)), 0)
    whole = Update.adding(Summary.of(features[10:], labels[10:], 3)).magnitude
    assert _honest(scenario, 20, 3, rng) == pytest.approx([whole] * 3)
    seen = judge_messages(scenario, own_data(*scenario.own, 3, responses=5, rng=rng), rng)
    assert seen.messages == 5
