"""What to do now: a configuration that was put through the same trials, and commands that can be copied."""

import shlex

import pytest

from exhume.audit.commands import command_of
from exhume.audit.next_steps import in_full, next_steps, next_steps_live, today
from exhume.audit.remedy import remedy_for
from exhume.audit.settings import make_settings
from exhume.audit.verdict_defended import conclude_defended, is_proved
from exhume.cli.main import app
from exhume.defence.config import load
from tests.audit.conftest import SMALL, TINY


def test_the_proposal_is_measured_and_can_be_copied(small):
    report = small.done.report
    remedy, file = report.remedy, small.out / "server.toml"
    assert file.read_text() == remedy.configuration
    assert [entry.rule for entry in load(file).release] == ["continual-noise", "heads"]
    assert remedy.command == "exhume audit --dim 16 --clients 3 --defence server.toml --trials 6"
    found = remedy.measured
    steps = "\n".join(report.verdict.next_steps)
    assert f"reached {found.severity_with.upper()}" in steps
    assert f"{max(e.labels_with for e in found.effects if e.labels_with is not None)}/6 labels right" in steps
    assert f"{100 * found.price.accuracy_lost:.2f} points of accuracy" in steps
    assert remedy.command in steps
    assert str(small.done).endswith(report.verdict.next_steps[-1])


def test_the_proposal_has_the_numbers_of_an_audit_of_its_own(small, hardened):
    ours, own = small.done.report.remedy.measured, hardened.done.report.defence
    assert ours == own


def test_the_hardened_server_is_not_proposed_in_its_own_place(hardened):
    assert hardened.done.report.remedy is None
    assert "server.toml" not in "".join(hardened.done.report.verdict.next_steps)


def plan_of(tmp_path, **more):
    from exhume.audit.plan import prepare

    return prepare(make_settings({**SMALL, "out": tmp_path, "remedy": None, **more}))


def test_what_is_not_measured_says_why(tmp_path):
    for severity in (None, "none"):
        assert remedy_for(plan_of(tmp_path), severity) is None
    found = remedy_for(plan_of(tmp_path, remedy=False), "label")
    assert found.measured is None and found.reason == "not asked for"


def test_dear_proposals_are_left_out_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("exhume.audit.remedy.CHEAP", 10)
    found = remedy_for(plan_of(tmp_path), "label")
    assert found.measured is None and "--remedy" in found.reason


@pytest.mark.parametrize(
    ("given", "change", "line"),
    [
        ({}, {}, "exhume audit"),
        ({"precision": "float32"}, {"defence": "a b.toml"}, "exhume audit --defence 'a b.toml'"),
        ({"probe": "designed,random", "gamma": 0.5}, {}, "exhume audit --gamma 0.5 --probe designed,random"),
        ({"jobs": 3, "fail-on": "label", "seed": 4}, {}, "exhume audit --seed 4"),
    ],
)
def test_commands_carry_out_the_settings(given, change, line):
    settings = make_settings(given)
    assert command_of(settings, **change) == line
    import typer

    known = {flag for p in typer.main.get_command(app).commands["audit"].params for flag in p.opts}
    words = shlex.split(line)[2:]
    assert {word for word in words if word.startswith("--")} <= known
    values = dict(zip([w[2:] for w in words[::2]], words[1::2], strict=True))
    again = make_settings(values)
    left = {"jobs", "fail_on", "json_file", "remedy"} | ({"precision"} if change else set())
    wanted = settings.model_copy(update=change).model_dump(exclude=left)
    assert again.model_dump(exclude=left) == wanted


def test_features_given_in_python_are_audited_by_a_call():
    settings = make_settings({"data": "features", "features": "given", "clients": 3})
    assert command_of(settings, defence="s.toml") == "exhume.audit(features, labels, clients=3, defence='s.toml')"


def test_a_clean_run_says_how_to_keep_it_so(hardened):
    report = hardened.done.report
    clean = report.model_copy(update={"verdict": report.verdict.model_copy(update={"severity": "none"})})
    steps = next_steps(make_settings({**TINY, "defence": "hardened"}), clean, None)
    assert any("--fail-on label" in step for step in steps)
    faint = report.verdict.model_copy(update={"severity": None, "text": "No verdict: the probes were too faint."})
    assert "--scale" in next_steps(make_settings({}), report.model_copy(update={"verdict": faint}), None)[0]


def test_a_clean_verdict_claims_a_proof_only_where_the_account_is_one(hardened):
    report = hardened.done.report
    found = report.defence
    assert found.privacy and not is_proved(report.verdict.guarantee)
    assert "best advantage" not in report.verdict.text

    def with_advantage(value):
        privacy = tuple(
            p.model_copy(update={"worst": p.worst.model_copy(update={"advantage_total": value})}) for p in found.privacy
        )
        clean = found.model_copy(update={"severity_with": "none", "privacy": privacy})
        return conclude_defended(clean, report.findings, report.cells)

    weak, strong = with_advantage(1.0), with_advantage(0.05)
    assert (
        "Others might." in weak.text
        and "too large to exclude any attack" in weak.text
        and not is_proved(weak.guarantee)
    )
    assert "The account bounds all others." in strong.text and is_proved(strong.guarantee)


def test_lines_fold_at_words(small):
    text = in_full(small.done.report.verdict, 80)
    long = [line for line in text.splitlines() if len(line) > 80]
    assert all(len(line.split()) == 1 for line in long)  # one word, such as a path
    whole = " ".join(in_full(small.done.report.verdict).split())
    assert " ".join(text.split()) == whole


def test_the_date_can_be_fixed(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert today() == "1970-01-02 00:00 UTC"


def test_after_a_live_audit(small):
    class Live:
        restored = True

    assert "--defence hardened" in next_steps_live(Live, "aggregate")[0]
    assert next_steps_live(Live, None) != next_steps_live(Live, "none")
    Live.restored = False
    assert "--undo" in next_steps_live(Live, "aggregate")[0]
