import numpy as np

from exhume.audit import work
from exhume.audit.outcome import carry_out
from exhume.audit.plan import prepare
from exhume.audit.run import assess, audit
from exhume.audit.settings import make_settings
from tests.audit.conftest import SMALL, numbers


def test_the_number_of_jobs_does_not_change_a_number(small, tmp_path):
    settings = make_settings({**SMALL, "jobs": 2, "out": tmp_path})
    outcome, report = assess(settings, command="exhume audit --dim 16")
    assert outcome.reused == 0
    assert numbers(report) == numbers(small.done.report)


def test_another_seed_gives_other_numbers(small, tmp_path):
    other = assess(make_settings({**SMALL, "seed": 3, "out": tmp_path, "probe": "designed", "kind": "class"}))
    mine = [f for f in small.done.report.findings if f.probe == "designed" and f.kind == "class"]
    assert [f.relerr_gram for f in other[1].findings] != [f.relerr_gram for f in mine]


def test_finished_trials_are_reused_and_torn_lines_are_not(small, tmp_path):
    plan = prepare(
        make_settings({**SMALL, "precision": "float64", "probe": "designed", "kind": "class", "out": tmp_path})
    )
    first = carry_out(plan, tmp_path)
    assert first.reused == 0
    file = tmp_path / "trials.jsonl"
    content = file.read_bytes()
    file.write_bytes(content[:-40])  # a kill in the middle of the last line
    again = carry_out(plan, tmp_path)
    assert again.reused == len(first.trials)  # all but one of the trials and their cell
    assert (again.cells, again.trials) == (first.cells, first.trials)
    more = prepare(plan.settings.model_copy(update={"trials": 9}))
    assert carry_out(more, tmp_path).reused == len(first.trials) + 1
    assert carry_out(plan, tmp_path, fresh=True).reused == 0


def test_another_gamma_is_never_taken_for_this_one(tmp_path):
    common = {**SMALL, "precision": "float64", "probe": "designed", "kind": "client", "out": tmp_path}
    carry_out(prepare(make_settings(common)), tmp_path)
    assert carry_out(prepare(make_settings({**common, "gamma": 0.5})), tmp_path).reused == 0


def test_a_failing_trial_is_recorded_and_the_run_goes_on(tmp_path, monkeypatch):
    real = work._trial

    def sometimes(plan, campaign, unit):
        if unit.deletion.what == "class 1":
            raise RuntimeError("out of luck")
        return real(plan, campaign, unit)

    monkeypatch.setattr(work, "_trial", sometimes)
    settings = make_settings({**SMALL, "precision": "float64", "probe": "designed", "kind": "class", "out": tmp_path})
    done = audit(settings)
    (finding,) = done.report.findings
    assert (finding.trials, finding.identified) == (6, 5)
    assert done.report.failures[0]["reason"] == "unexpected RuntimeError: out of luck"
    assert "out of luck" in done.page.read_text()


def test_a_probe_that_cannot_identify_gives_no_estimate_and_no_verdict(tmp_path):
    settings = make_settings(
        {**SMALL, "precision": "float64", "probe": "own-data", "responses": 1, "kind": "record,class", "out": tmp_path}
    )
    _, report = assess(settings)
    assert report.verdict.severity is None
    assert report.verdict.text.startswith("No verdict: no estimate, rank deficient")
    assert "no estimate in" in report.verdict.text
    assert all(f.identified == 0 and f.relerr_gram is None for f in report.findings)
    assert "rank deficient" in report.failures[0]["reason"]


def test_clients_without_full_rank_still_face_designed_probes(tmp_path):
    settings = make_settings(
        {**SMALL, "dim": 600, "trials": 1, "precision": "float64", "probe": "designed", "kind": "class"}
    )
    plan = prepare(settings)
    assert plan.usable == ()
    assert plan.scenario.attacker == max(range(3), key=lambda k: len(plan.scenario.parts[k]))


def test_a_users_own_features(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", features=rng.standard_normal((200, 5)), labels=rng.integers(0, 3, 200))
    settings = make_settings(
        {"data": "features", "features": tmp_path / "mine.npz", "clients": 3, "trials": 3, "jobs": 1, "out": tmp_path}
    )
    _, report = assess(settings)
    assert report.data["name"] == "features"
    assert str(tmp_path) not in report.model_dump_json()


def test_the_estimator_of_the_settings_is_the_one_that_runs(tmp_path):
    found = {}
    for name in ("direct", "symmetric"):
        values = SMALL | {"precision": "12bits", "probe": "own-data", "kind": "record", "trials": 1, "estimator": name}
        outcome, _ = assess(make_settings(values | {"out": tmp_path / "same"}))
        found[name] = outcome.cells[0].state_error
        assert outcome.reused == 0  # the estimator is in the key
    assert found["direct"] > found["symmetric"] > 0
