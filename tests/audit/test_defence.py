"""The audit of an operator's own settings: what they change, what they cost, and who could know how much."""

import csv
import json

import numpy as np
import pytest

from exhume.audit.effect import siege_level
from exhume.audit.levels import LEVELS
from exhume.audit.outcome import carry_out
from exhume.audit.plan import Facing, prepare
from exhume.audit.records import Report
from exhume.audit.records_defence import SiegeRecord
from exhume.audit.report.schema import schema_text
from exhume.audit.run import assess, audit
from exhume.audit.settings import from_toml, make_settings
from exhume.defence.config import Config, Entry, dump
from exhume.errors import InputError
from tests.audit.conftest import SMALL, TINY, numbers


def config(*admission, release=(), accountant=None):
    return Config(admission=admission, release=release, accountant=accountant)


@pytest.fixture
def assessed(tmp_path):
    """Audit a configuration."""

    def run_it(settings, **options):
        dump(settings, tmp_path / "server.toml")
        values = {**TINY, "out": tmp_path / "out", "defence": str(tmp_path / "server.toml"), **options}
        return assess(make_settings(values))

    return run_it


@pytest.fixture
def plan():
    return prepare(make_settings({**SMALL, "precision": "float64"}))


def effects(report, kind):
    return [e for e in report.defence.effects if e.kind == kind]


def test_without_settings_the_report_has_none_and_the_verdict_is_the_old_one(small):
    assert small.done.report.defence is None
    assert "xposure" not in small.done.report.verdict.text
    assert all(cell.service is None for cell in small.done.report.cells)
    with (small.out / "trials.csv").open() as stream:
        assert "deletion_refused" not in next(csv.reader(stream))


def test_the_bare_server_beside_the_settings_is_that_of_the_plain_audit(small, hardened):
    plain = [f for f in small.done.report.findings if f.precision == "float64"]
    assert [f for f in hardened.done.report.findings if f.precision == "float64"] == plain


def test_the_hardened_server_lowers_the_level_and_serves_the_honest(hardened):
    report, found = hardened.done.report, hardened.done.report.defence
    assert found.severity_without == "replay"
    assert LEVELS.index(found.severity_with) < LEVELS.index("replay")
    assert report.verdict.severity == found.severity_with
    assert found.price.uploads == 9
    assert found.price.uploads_refused == {}
    assert found.price.deletions_refused == {}
    assert found.price.heads > 0
    assert abs(found.price.accuracy_lost) < 0.1
    assert {(e.kind, e.probe) for e in found.effects} == {
        (delete, probe) for delete in ("record", "class", "client") for probe in ("designed", "own-data")
    }


def test_the_verdict_has_effect_price_exposure_and_the_adaptive_attackers_in_ten_lines(hardened):
    lines = hardened.done.report.verdict.text.splitlines()
    assert len(lines) <= 10
    text = "\n".join(lines)
    for words in ("6/6 without", "Price: ", "Exposure: the attacker has", "(1.00 without)"):
        assert words in text
    assert "attackers that know the settings: the best (" in lines[-1]


def test_exposure_of_every_client_is_in_json_that_keeps_to_the_schema(hardened):
    found = hardened.json
    assert Report.model_validate(found) == hardened.done.report
    definitions = json.loads(schema_text())["$defs"]
    for cell in found["cells"]:
        assert [e["client"] for e in cell["exposure"]] == ["client 0", "client 1", "client 2"]
        assert sum(e["attacker"] for e in cell["exposure"]) == 1
        for exposure in cell["exposure"]:
            assert set(exposure) == set(definitions["ExposureRecord"]["properties"])
            assert 0 <= exposure["value"] <= 1
    assert set(found["defence"]) == set(definitions["DefenceRecord"]["properties"])


def test_on_the_bare_server_the_attacker_is_fully_exposed_and_the_others_are_not(small):
    for cell in small.done.report.cells:
        for exposure in cell.exposure:
            assert (exposure.value == 1.0) is exposure.attacker
            assert exposure.needed == 16
            assert exposure.meaning


def test_privacy_figures_of_the_audited_deletions(assessed):
    noise, budget = Entry.of("posterior-noise", sigma=0.2), Entry.of("privacy-budget", sigma=0.2, mu=2.0)
    _, report = assessed(config(release=(noise, budget)), probe="designed")
    by_kind = {p.kind: p for p in report.defence.privacy}
    assert set(by_kind) == {"record", "class", "client"}
    assert by_kind["record"].deletions == 6
    assert 0 < by_kind["record"].median.mu_release <= by_kind["record"].worst.mu_release
    assert by_kind["record"].worst.mu_release < by_kind["client"].median.mu_release
    assert by_kind["record"].median.mu_release <= by_kind["record"].median.mu_total
    assert 0 < by_kind["record"].worst.advantage_total < 1
    assert "Privacy of a deleted record over all releases: mu " in report.verdict.text


def test_the_page_shows_settings_exposure_and_caveat(hardened):
    text = (hardened.out / "report.html").read_text()
    for words in ('id="settings"', 'id="exposure"', "Rules in force", "Attackers that know the settings"):
        assert words in text
    assert hardened.done.report.defence.caveat.split("'")[0] in text
    with (hardened.out / "trials.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {row["head_withheld"] for row in rows if row["server"] == "bare"} == {""}
    assert all(row["exposure"] for row in rows if row["server"] == "hardened")


def test_the_same_settings_give_the_same_numbers(hardened, tmp_path):
    again = assess(make_settings({**TINY, "defence": "hardened", "jobs": 2, "out": tmp_path}), command="exhume audit")
    assert numbers(again[1]) == numbers(hardened.done.report)


def test_a_refused_deletion_is_counted_and_stops_its_trial(assessed):
    outcome, report = assessed(config(Entry.of("minimum-rows", rows=8)), kind="record,client")
    price = report.defence.price
    assert price.deletions_refused == {"minimum-rows": 12}
    assert price.deletions == 16
    assert all(e.deletions_refused == 6 and e.level_with == "none" for e in effects(report, "record"))
    assert all(e.deletions_refused == 0 for e in effects(report, "client"))
    refused = [t for t in outcome.trials if t.service is not None and t.service.deletion_refused]
    assert all(t.reason.startswith("deletion refused: minimum-rows: ") and not t.recoveries for t in refused)
    assert any("deletion refused: minimum-rows" in failure["reason"] for failure in report.failures)
    assert next(f for f in report.findings if f.server != "bare").reason.startswith("deletion refused")


def test_settings_that_refuse_every_deletion_are_no_clean_bill(tmp_path):
    dump(config(Entry.of("minimum-rows", rows=8)), tmp_path / "server.toml")
    values = {**TINY, "kind": "record", "probe": "designed", "trials": 2, "out": tmp_path / "out"}
    done = audit(make_settings({**values, "defence": str(tmp_path / "server.toml")}))
    assert done.carried_out == 0


def test_a_refused_replay_is_no_replay(assessed):
    outcome, report = assessed(config(Entry.of("replay")), kind="record", probe="designed")
    for effect in report.defence.effects:
        assert effect.level_without == "replay"
        assert effect.level_with == "feature"
        assert effect.replays_refused == effect.trials == 6
        assert effect.undone_with is None
    ours = [r for t in outcome.trials if t.server != "bare" for r in t.recoveries]
    assert ours
    assert all(r.replay_head_error is None and r.accuracy_replay is None for r in ours)


def test_no_rule_at_all_changes_no_level(assessed):
    _, report = assessed(config())
    assert {e.level_without for e in report.defence.effects} == {"replay"}
    assert {e.level_with for e in report.defence.effects} == {"replay"}
    assert report.defence.exposure_with == report.defence.exposure_without == 1.0
    assert report.defence.privacy == ()


def test_withheld_heads_are_counted_and_crash_nothing(assessed):
    outcome, report = assessed(config(release=(Entry.of("min-clients", clients=9),)), kind="record", probe="designed")
    found = report.defence
    assert found.price.uploads_withheld == 8
    assert found.price.deletions_withheld == found.price.deletions == 6
    assert found.price.accuracy_lost is None
    assert found.attack_withheld == 2
    assert found.severity_with == "none"
    assert all(t.error is None for t in outcome.trials)
    assert any(failure["reason"].startswith("withheld: 2 of 3 heads") for failure in report.failures)


def test_refusals_of_the_attack_are_counted_by_rule(assessed):
    _, report = assessed(config(Entry.of("duplicates")), kind="record", probe="designed", trials=1)
    assert report.defence.attack_refused == {"duplicates": 2}
    assert "duplicates refused 2 of " in report.verdict.text
    assert report.defence.exposure_with < 1


def test_clients_sign_and_show_their_rows_where_the_server_asks_for_it(assessed):
    rules = config(Entry.of("signed-messages"), Entry.of("ownership", show_rows=True))
    _, report = assessed(rules, kind="record", trials=2)
    assert report.defence.price.uploads_refused == {}
    assert report.defence.price.deletions_refused == {}
    levels = {e.probe: e.level_with for e in report.defence.effects if e.recovery == "difference"}
    assert levels == {"designed": "none", "own-data": "replay"}


def test_secrets_of_the_file_are_in_no_report(tmp_path):
    secret = "ab" * 16
    dump(config(release=(Entry.of("posterior-noise", sigma=0.1, key=secret),)), tmp_path / "server.toml")
    settings = make_settings(
        {**TINY, "trials": 1, "kind": "class", "defence": str(tmp_path / "server.toml"), "out": tmp_path / "out"}
    )
    done = audit(settings)
    written = [f.read_text() for f in (tmp_path / "out").rglob("*") if f.suffix in (".json", ".html", ".csv")]
    assert len(written) == 3
    assert done.report.verdict.next_steps
    assert not any(secret in text or str(tmp_path) in text for text in written)
    assert done.report.settings["defence"] == "server.toml"
    assert "sigma 0.1" in (tmp_path / "out" / "report.html").read_text()


def test_other_settings_are_never_taken_for_these(tmp_path):
    file = tmp_path / "server.toml"
    values = {**TINY, "kind": "client", "probe": "designed", "defence": str(file), "out": tmp_path}
    dump(config(release=(Entry.of("posterior-noise", sigma=0.1),)), file)
    first = carry_out(prepare(make_settings(values)), tmp_path)
    dump(config(release=(Entry.of("posterior-noise", sigma=0.2),)), file)
    again = carry_out(prepare(make_settings(values)), tmp_path)
    assert again.reused == 3  # the bare server's cell and its two deletions
    assert len(first.trials) == 4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('[[admission]]\nrule = "algebraic-ownershp"', "(did you mean 'algebraic-ownership'?)"),
        ('[[release]]\nrule = "posterior-nose"', "'posterior-nose' (did you mean 'posterior-noise'?)"),
        ('[[release]]\nrule = "posterior-noise"', "posterior-noise"),
        ('[accountant]\nrule = "identificaton"', "'identificaton' (did you mean 'identification'?)"),
        ("[[admision]]", "'admision' (did you mean 'admission'?)"),
        ("nonsense", "a valid TOML file"),
        ('[[admission]]\nrule = "norm-limit"\nthresholds = { 1 = 1e-9 }', "all refused (norm-limit: "),
    ],
)
def test_settings_that_cannot_be_played_are_refused_by_name(tmp_path, content, words):
    (tmp_path / "server.toml").write_text(f"version = 1\n{content}\n")
    settings = make_settings({**TINY, "defence": str(tmp_path / "server.toml"), "out": tmp_path / "out"})
    with pytest.raises(InputError, match=r"^defence") as caught:
        assess(settings)
    assert words in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.toml"):
        prepare(make_settings({**TINY, "defence": str(tmp_path / "absent.toml")}))


def test_heads_and_a_defence_exclude_each_other():
    with pytest.raises(InputError, match="precision must be left out with a defence"):
        make_settings({"defence": "hardened", "precision": "float32"})
    assert prepare(make_settings({**TINY, "defence": "hardened"})).facings == (
        Facing("hardened", "float32"),
        Facing("bare", "float64"),
    )
    assert prepare(make_settings(SMALL)).facings == (Facing("bare", "float64"), Facing("bare", "float32"))


def test_the_file_of_an_audit_can_name_its_settings(tmp_path):
    (tmp_path / "audit.toml").write_text('defence = "server.toml"\n')
    assert make_settings(from_toml(tmp_path / "audit.toml")).defence == "server.toml"


def siege(**more):
    return SiegeRecord(**{"attack": "a", "about": "b", "trials": 20, "guessed": 20, "labels_correct": 0, **more})


@pytest.mark.parametrize(
    ("made", "attackers", "level"),
    [
        ({"labels_correct": 20}, 1, "label"),
        ({"labels_correct": 9}, 1, "label"),  # 9 of 20 at 13%: p = 5e-4
        ({"labels_correct": 9}, 14, "none"),  # the best of fourteen has nine now and then
        ({"labels_correct": 2}, 1, "none"),
        ({"labels_correct": 20, "features_right": 10}, 1, "feature"),
        ({"labels_correct": 20, "features_right": 9}, 1, "label"),
        ({"labels_correct": 20, "features_right": 20, "replays": 10}, 1, "replay"),
        ({"labels_correct": None, "replays": 20}, 1, "none"),  # told the block: it dug up nothing
    ],
)
def test_the_level_of_an_adaptive_attacker(made, attackers, level):
    assert siege_level(siege(**made), 0.13, attackers) == level


def test_adaptive_attackers_decide_the_verdict_where_the_papers_probes_are_refused(assessed):
    outcome, report = assessed(config(Entry.of("ownership")), kind="record", trials=12, attack="held-out,passive")
    assert [s.attack for s in outcome.sieges] == ["held-out", "passive"]
    found = {s.attack: s for s in report.defence.sieges}
    assert found["held-out"].labels_correct == 12
    assert found["held-out"].level == "replay"
    assert report.verdict.severity == report.defence.severity_with == "replay"
    assert "the best (held-out) has 12/12 labels" in report.verdict.text


def test_too_few_rows_for_adaptive_attackers_are_said(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "few.npz", features=rng.standard_normal((90, 16)), labels=rng.integers(0, 3, 90))
    values = {"data": "features", "features": tmp_path / "few.npz", "clients": 3, "trials": 2, "jobs": 1}
    _, report = assess(make_settings({**values, "defence": "hardened", "out": tmp_path / "out"}))
    assert report.defence.sieges == ()
    assert "too few rows" in report.verdict.text
