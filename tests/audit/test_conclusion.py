"""Earlier reports, accepted risks, and what other programs read."""

import json
from datetime import date
from xml.etree import ElementTree

import pytest

from exhume.audit.accepted import accept, read_risks
from exhume.audit.compare import Earlier, compare, read_earlier
from exhume.audit.conclusion import conclusion_of
from exhume.audit.items import items_in, items_of
from exhume.audit.levels import LEVELS
from exhume.audit.settings import make_settings
from exhume.errors import InputError

RISK = '[[risk]]\nfinding = "{0}"\nreason = "The class is public here."\nexpires = {1}\n'


@pytest.fixture
def report(small):
    return small.done.report


def lowered(report, level="none", labels=0):
    """Return the JSON of a report whose attacks on records got less far."""
    content = json.loads(report.model_dump_json(by_alias=True))
    for finding in content["findings"]:
        if finding["kind"] == "record":
            finding["severity"], finding["labels_correct"] = level, labels
    return content


def test_every_judged_attack_has_a_name_of_its_own(small, hardened):
    for done in (small.done, hardened.done):
        names = [item.name for item in items_of(done.report)]
        assert len(names) == len(set(names))
    assert "record/own-data/float32/rank-one" in [item.name for item in items_of(small.done.report)]
    ours = [item.name for item in items_of(hardened.done.report)]
    assert "attacker/averaging" in ours and not any("float64" in name for name in ours)


def test_nothing_changed_against_itself(report, small):
    earlier = read_earlier(small.out / "report.json")
    found = compare(earlier, items_of(report))
    assert (found.worse, found.better, found.new, found.gone) == ((), (), (), ())
    assert found.same == len(report.findings)
    assert report.date in found.lines()[0]


def test_what_got_worse_better_new_and_gone(report, tmp_path):
    (tmp_path / "earlier.json").write_text(json.dumps(lowered(report)))
    earlier = read_earlier(tmp_path / "earlier.json")
    items = items_of(report)
    records = [item.name for item in items if item.name.startswith("record/")]
    found = compare(earlier, items[:-1])
    assert [change.after.name for change in found.worse] == records
    assert [item.name for item in found.gone] == [items[-1].name]
    assert any("NONE to REPLAY (labels right 0/6 to 6/6)" in line for line in found.lines())
    back = compare(type(earlier)("now", "", tuple(items)), list(earlier.items))
    assert [change.after.name for change in back.better] == records and back.worse == ()


def test_at_the_same_level_more_labels_count_beyond_chance(report):
    (item,) = [item for item in items_of(report) if item.name == "record/designed/float64/difference"]
    from dataclasses import replace

    few, more = replace(item, labels=30, trials=100), replace(item, labels=45, trials=100)
    many = replace(item, labels=60, trials=100)
    since = type("E", (), {"items": (few,), "file": "", "date": ""})
    assert compare(since, [more]).worse == ()  # p = 0.02
    assert len(compare(since, [many]).worse) == 1  # p = 2e-5


@pytest.mark.parametrize("content", ["", "{}", "[]", "3", '{"schema": "other/1"}', '{"schema": "exhume-audit/2"}'])
def test_what_is_no_report_is_refused(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError, match=r"compare must be the report\.json of an audit"):
        read_earlier(tmp_path / "a.json")
    with pytest.raises(InputError, match="a file that can be read"):
        read_earlier(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a file of \\[\\[risk\\]\\] tables"),
        ("risk = 3\n", "a file of \\[\\[risk\\]\\] tables"),
        (RISK.format("a", "2030-01-01") + 'owner = "me"\n', "accept: risk 1.owner"),
        ('[[risk]]\nfinding = "a"\nexpires = 2030-01-01\n', "accept: risk 1.reason must be given"),
        ('[[risk]]\nfinding = "a"\nreason = "x"\n', "accept: risk 1.expires must be given"),
        ('[[risk]]\nfinding = "a"\nreason = " "\nexpires = 2030-01-01\n', "a reason in words"),
        ('[[risk]]\nfinding = "a"\nreason = "x"\nexpires = "soon"\n', "accept: risk 1.expires"),
        (RISK.format("a", "2030-01-01") + 'level = "lable"\n', "accept: risk 1.level"),
        ("[[risk\n", "a valid TOML file"),
    ],
)
def test_a_risk_needs_a_finding_a_reason_and_a_day(tmp_path, text, words):
    (tmp_path / "risks.toml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_risks(tmp_path / "risks.toml")


def risks(tmp_path, *entries):
    (tmp_path / "risks.toml").write_text("".join(entries))
    return read_risks(tmp_path / "risks.toml")


def test_accepted_until_the_day_and_not_after(report, tmp_path):
    (risk,) = risks(tmp_path, RISK.format("record/*", "2030-05-01"))
    items = items_of(report)
    on, after = (accept([risk], items, date(2030, 5, day)) for day in (1, 2))
    assert set(on.covered) == {item.name for item in items if item.name.startswith("record/")}
    assert after.covered == {} and after.expired == (risk,)
    assert any("Expired on 2030-05-01" in line for line in after.lines(items))


def test_a_worse_level_than_the_accepted_one_is_not_covered(report, tmp_path):
    limited = RISK.format("record/*", "2030-05-01") + 'level = "label"\n'
    (risk,) = risks(tmp_path, limited)
    items = items_of(report)
    assert all(item.level == "replay" for item in items)
    assert accept([risk], items, date(2030, 1, 1)).idle == (risk,)
    mild = items_in(lowered(report, "label"))
    assert len(accept([risk], mild, date(2030, 1, 1)).covered) == sum(i.name.startswith("record/") for i in mild)


def test_the_exit_code_is_about_what_is_not_accepted(report, tmp_path):
    settings = make_settings({"fail-on": "label"})
    assert conclusion_of(report, settings).fails
    everything = risks(tmp_path, RISK.format("*", "2999-01-01"))
    done = conclusion_of(report, settings, None, everything)
    assert not done.fails and "The worst that is left is NONE." in done.lines[0]
    part = risks(tmp_path, RISK.format("record/*", "2999-01-01"))
    assert conclusion_of(report, settings, None, part).fails
    assert not conclusion_of(report, make_settings({})).fails


def test_failing_on_what_got_worse(report, small, tmp_path):
    with pytest.raises(InputError, match="together with --compare"):
        make_settings({"fail-on": "worse"})
    (tmp_path / "earlier.json").write_text(json.dumps(lowered(report)))
    settings = make_settings({"fail-on": "worse", "compare": tmp_path / "earlier.json"})
    assert conclusion_of(report, settings, read_earlier(tmp_path / "earlier.json")).fails
    assert not conclusion_of(report, settings, read_earlier(small.out / "report.json")).fails
    covered = risks(tmp_path, RISK.format("record/*", "2999-01-01"))
    assert not conclusion_of(report, settings, read_earlier(tmp_path / "earlier.json"), covered).fails


def test_an_attack_that_is_new_and_worse_than_any_before_counts_as_worse(report):
    items = items_of(report)
    mild = items_in(lowered(report, "label"))
    before = Earlier("then", "", tuple(item for item in mild if item.level == "label"))
    found = compare(before, items)
    new = [item.name for item in items if not item.name.startswith("record/")]
    assert set(new) <= set(found.worsened())
    assert compare(Earlier("then", "", tuple(items[:1])), items).worsened() == []  # new, but no worse


@pytest.fixture
def written(report, tmp_path):
    """Write all three, with a part of the findings accepted."""
    values = {name: tmp_path / f"found.{name}" for name in ("sarif", "junit", "markdown")}
    part = risks(tmp_path, RISK.format("record/*", "2999-01-01"))
    done = conclusion_of(report, make_settings({"fail-on": "feature", **values}), None, part)
    return {path.suffix[1:]: text for path, text in done.files.items()}


def test_sarif_has_the_shape_that_version_2_1_0_requires(written, report):
    """What the published schema requires of these objects, written out: it cannot be fetched here."""
    log = json.loads(written["sarif"])
    assert set(log) == {"$schema", "version", "runs"} and log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert isinstance(driver["name"], str) and driver["name"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids)) == len(LEVELS) - 1
    assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
    assert all(
        rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error") for rule in driver["rules"]
    )
    found = [item for item in items_of(report) if item.level != "none"]
    assert len(run["results"]) == len(found)
    for result, item in zip(run["results"], found, strict=True):
        assert result["message"]["text"] == item.text
        assert ids[result["ruleIndex"]] == result["ruleId"] == f"exhume/{item.level}"
        assert result["level"] in ("none", "note", "warning", "error")
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] and place["region"]["startLine"] >= 1
        assert all(isinstance(value, str) for value in result["partialFingerprints"].values())
        kinds = [(s["kind"], s["status"]) for s in result.get("suppressions", ())]
        assert kinds == ([("external", "accepted")] if item.name.startswith("record/") else [])
    assert all(isinstance(one["executionSuccessful"], bool) for one in run["invocations"])
    prints = [result["partialFingerprints"]["exhumeFinding/v1"] for result in run["results"]]
    assert len(prints) == len(set(prints))


def test_junit_counts_what_it_holds(written, report):
    root = ElementTree.fromstring(written["junit"])
    (suite,) = root
    assert root.tag == "testsuites" and suite.tag == "testsuite"
    cases = suite.findall("testcase")
    assert int(suite.get("tests")) == len(cases) == len(items_of(report))
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure")) > 0
    assert int(suite.get("skipped")) == len(suite.findall("testcase/skipped")) > 0
    assert int(suite.get("errors")) == 0
    assert all(case.get("classname") and case.get("name") for case in cases)
    for case in cases:
        assert (case.find("skipped") is not None) == (case.get("classname") == "exhume.record")


def test_markdown_is_a_summary_with_a_table(written, report):
    text = written["markdown"]
    assert text.startswith(f"## {report.verdict.text.splitlines()[0]}")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) >= 3 and len({row.count("|") for row in rows}) == 1
    assert "**What to do now**" in text and "Accepted: " in text


def test_no_verdict_is_an_error_of_the_suite(report):
    empty = report.model_copy(update={"verdict": report.verdict.model_copy(update={"severity": None})})
    settings = make_settings({"junit": "j.xml", "sarif": "s.json"})
    found = {path.name: text for path, text in conclusion_of(empty, settings).files.items()}
    (suite,) = ElementTree.fromstring(found["j.xml"])
    assert suite.get("errors") == "1"
    assert json.loads(found["s.json"])["runs"][0]["invocations"][0]["executionSuccessful"] is False
