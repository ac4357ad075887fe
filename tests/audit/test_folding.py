"""The page's own words: equal findings in one row, the threat model as prose, words explained, one picture."""

import re

import pytest

from exhume.audit.report.flow import flow_of
from exhume.audit.report.folding import fold, fold_effects, ranged
from exhume.audit.report.prose import passages
from exhume.audit.report.terms import TERMS, commands_marked, term
from exhume.audit.verdict_defended import best_siege


def test_every_finding_is_in_one_row_and_equal_ones_share_it(small):
    findings = small.done.report.findings
    rows = fold(findings)
    assert sorted(map(id, findings)) == sorted(id(f) for row in rows for f in row.findings)
    assert len(rows) < len(findings)
    for row in rows:
        assert len({(f.kind, f.severity, f.identified, f.labels_correct) for f in row.findings}) == 1
        assert all(f.probe in row.probes and f.recovery in row.recoveries for f in row.findings)
    changed = [findings[0].model_copy(update={"severity": "label"}), *findings[1:]]
    assert len(fold(changed)) == len(rows) + 1


def test_every_effect_is_in_one_row(hardened):
    report = hardened.done.report
    rows = fold_effects(report.defence.effects, report.findings)
    assert sum(len(row.effects) for row in rows) == len(report.defence.effects) > len(rows)
    for row in rows:
        own = [f for f in report.findings if f.server != "bare" and f.kind == row.one.kind]
        assert row.estimated in {f.identified > 0 for f in own}


@pytest.mark.parametrize(
    ("values", "text"), [([], "-"), ([None], "-"), ([0.5, None], "0.5"), ([2e-5, 7e-13], "7e-13 to 2e-5")]
)
def test_ranges(values, text):
    assert ranged(values) == text


def test_no_word_of_the_threat_model_is_lost():
    text = "Threat model of this audit\n\nThe server keeps.\nIt sends:\n    - a: one\n    - b\n"
    text += "  Knows: the x,\n         the y.\n"
    found = passages(text)
    assert [(p.label, p.text, p.items) for p in found] == [
        ("", "The server keeps. It sends:", [("a", "one"), ("", "b")]),
        ("Knows", "the x, the y.", []),
    ]


def test_the_page_has_prose_terms_and_date(small):
    text = (small.out / "report.html").read_text()
    assert small.done.report.date in text
    assert "<strong>Knows:</strong>" in text and "<strong>designed</strong>" in text
    assert 'id="todo"' in text and "continual-noise" in text
    used = set(re.findall(r'<abbr title="([^"]*)"', text))
    assert len(used) > 6 and all(f"<dd>{title}</dd>" in text for title in used)
    assert "[-, -]" not in text
    with pytest.raises(KeyError):
        term("no such word")
    assert "&lt;" in term(next(iter(TERMS)), "<")


def test_the_picture_says_what_leaks(small, hardened):
    flow = flow_of(small.done.report)
    assert flow.clients == "2 honest clients" and flow.leaks[-1] == "put back: yes"
    assert "6 of 6 right" in flow.leaks[0]
    safe = flow_of(hardened.done.report)
    assert safe.server == "settings: hardened" and "put back: yes" not in safe.leaks
    best = best_siege(hardened.done.report.defence)
    assert f"to one that knows the settings: {best.labels_correct} of {best.trials} labels" in safe.leaks
    page = (hardened.out / "report.html").read_text()
    assert 'class="verdict none"' in page and "NONE FOUND" in page  # green only where it is proved


def test_commands_in_a_sentence_are_code_and_break_between_words():
    found = str(commands_marked("Keep <it>: run exhume audit --defence 'my server.toml' --fail-on label with care."))
    assert found.startswith('Keep &lt;it&gt;: run <code class="command"><span>exhume</span> <span>audit</span> ')
    assert found.endswith(" <span>--fail-on</span> <span>label</span></code> with care.")
    assert str(commands_marked("an exhumed & plain line")) == "an exhumed &amp; plain line"
