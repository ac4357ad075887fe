import math

from exhume.audit.explain import explain
from exhume.audit.settings import make_settings
from exhume.audit.verdict import conclude, quantity


def test_at_most_ten_lines_and_every_number_is_in_the_findings(small):
    report = small.done.report
    lines = report.verdict.text.splitlines()
    assert 2 <= len(lines) <= 10
    assert lines[0].startswith(f"Verdict: {report.verdict.severity.upper()}. ")
    best = max(f.labels_correct for f in report.findings if f.labels_correct is not None)
    assert any(f"label is right {best}/6 times" in line for line in lines)
    assert any(
        f"{math.ceil(16 / 10)} heads tell the whole hidden state: 16 features / 10 classes" in line for line in lines
    )


def test_many_precisions_do_not_push_the_remedies_out(small):
    report = small.done.report
    many = [f.model_copy(update={"precision": f"{n}bits"}) for n in range(20, 30) for f in report.findings]
    text = conclude(many, report.cells, 10).text
    assert len(text.splitlines()) <= 10
    assert "Theorem 1" in text


def test_nothing_found_makes_no_claims(small):
    report = small.done.report
    harmless = [f.model_copy(update={"severity": "none", "reached": ("none",)}) for f in report.findings]
    verdict = conclude(harmless, report.cells, 10)
    assert verdict.severity == "none"
    assert "needs" not in verdict.text
    assert "Theorem" not in verdict.text
    assert "Others might." in verdict.text


def test_rounding_that_helps_is_said(small):
    report = small.done.report
    changed = [
        f.model_copy(update={"severity": "none", "reached": ("none",)}) if f.precision == "float32" else f
        for f in report.findings
    ]
    assert "float64 REPLAY, float32 NONE" in conclude(changed, report.cells, 10).text


def test_quantities_are_short():
    assert [quantity(x) for x in (None, 0.0, 0.123, 12.3, 123.4, 41954.7, 6.7e-13)] == [
        "-", "0", "0.12", "12", "123", "4e4", "7e-13",
    ]  # fmt: skip


def test_explain_names_knowledge_messages_and_the_quiet_interval():
    text = explain(make_settings({"probe": "designed", "kind": "record", "precision": "float32"}), 128, 10)
    for words in (
        "Knows:",
        "Sends:",
        "Sees:",
        "quiet interval is not needed",
        "ceil(128/10) = 13",
        "designed",
        "float32",
        "gamma",
    ):
        assert words in text
    assert "own-data" not in text
    assert max(map(len, text.splitlines())) <= 120
