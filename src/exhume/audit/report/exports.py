"""What other programs read: SARIF for code scanning, JUnit for pipelines, Markdown for pull requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from exhume.audit.accepted import Acceptance
from exhume.audit.compare import Changes
from exhume.audit.items import JudgedAttack
from exhume.audit.levels import LEVELS, MEANING, Level, at_least
from exhume.audit.records import Report
from exhume.audit.report.folding import fold

__all__ = ["Exported", "junit_text", "markdown_text", "sarif_text"]

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
HOME = "https://github.com/exhume/exhume"
_SARIF_LEVEL: dict[Level, str] = {
    "none": "none",
    "aggregate": "note",
    "label": "warning",
    "feature": "error",
    "replay": "error",
}


@dataclass(frozen=True)
class Exported:
    """A report with what surrounds it: its items, what was accepted, what changed, and from which level on it fails."""

    report: Report
    items: Sequence[JudgedAttack]
    acceptance: Acceptance
    changes: Changes | None = None
    floor: Level = "aggregate"
    where: str = "report.html"
    """The file that code scanning shows the results at: that of the settings, where there is one."""


def sarif_text(found: Exported) -> str:
    """Return SARIF 2.1.0: one rule per level, one result per attack that found something."""
    rules = [
        {
            "id": f"exhume/{level}",
            "name": f"Deleted{level.capitalize()}Recovered",
            "shortDescription": {"text": MEANING[level]},
            "helpUri": f"{HOME}/blob/main/docs/audit.md#severity-levels",
            "defaultConfiguration": {"level": _SARIF_LEVEL[level]},
        }
        for level in LEVELS
        if level != "none"
    ]
    driver = {"name": "exhume", "version": found.report.version, "informationUri": HOME, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "results": [_result(found, item) for item in found.items if item.level != "none"],
        "invocations": [{"executionSuccessful": found.report.verdict.severity is not None}],
        "columnKind": "utf16CodeUnits",
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(found: Exported, item: JudgedAttack) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": found.where}, "region": {"startLine": 1}}
    result: dict[str, Any] = {
        "ruleId": f"exhume/{item.level}",
        "ruleIndex": LEVELS.index(item.level) - 1,
        "level": _SARIF_LEVEL[item.level],
        "message": {"text": item.text},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"exhumeFinding/v1": hashlib.sha256(item.name.encode()).hexdigest()},
    }
    if risk := found.acceptance.covered.get(item.name):
        text = f"{risk.reason} (until {risk.expires})"
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": text}]
    return result


def junit_text(found: Exported) -> str:
    """Return JUnit XML: one test case per attack, which fails at the level that the audit fails on."""
    suite = ElementTree.Element("testsuite", name="exhume audit")
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for item in found.items:
        kind, _, rest = item.name.partition("/")
        case = ElementTree.SubElement(suite, "testcase", classname=f"exhume.{kind}", name=rest)
        counts["tests"] += 1
        if risk := found.acceptance.covered.get(item.name):
            counts["skipped"] += 1
            ElementTree.SubElement(case, "skipped", message=f"accepted until {risk.expires}: {risk.reason}")
        elif item.level != "none" and at_least(item.level, found.floor):
            counts["failures"] += 1
            ElementTree.SubElement(case, "failure", type=item.level, message=MEANING[item.level]).text = item.text
    if found.report.verdict.severity is None:
        case = ElementTree.SubElement(suite, "testcase", classname="exhume", name="verdict")
        ElementTree.SubElement(case, "error", message="no verdict").text = found.report.verdict.text
        counts["tests"], counts["errors"] = counts["tests"] + 1, 1
    suite.attrib |= {name: str(value) for name, value in counts.items()}
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def markdown_text(found: Exported) -> str:
    """Return the verdict, the next steps, the findings in a table, what changed and what was accepted."""
    report, verdict = found.report, found.report.verdict
    headline, *body = verdict.text.splitlines()
    lines = [f"## {headline}", "", *(f"- {_plain(line)}" for line in body)]
    if verdict.next_steps:
        lines += ["", "**What to do now**", "", *(f"{n}. {_plain(s)}" for n, s in enumerate(verdict.next_steps, 1))]
    lines += ["", "| deleted | severity | probes | server | labels right | features off by | heads |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in fold(report.findings):
        one = row.one
        labels = "-" if one.labels_correct is None else f"{one.labels_correct}/{one.trials}"
        cells = [one.kind, one.severity.upper(), row.probes, row.servers, labels, row.features, row.heads]
        if not one.identified:
            cells[1], cells[4] = "no estimate", "no estimate"
        lines.append(f"| {' | '.join(_plain(cell) for cell in cells)} |")
    for more in (found.changes.lines() if found.changes else [], found.acceptance.lines(found.items)):
        if more:
            lines += ["", _plain(more[0]), "", *(f"- {_plain(line)}" for line in more[1:])]
    lines += ["", f"exhume {report.version}, {report.date}: `{report.command}`"]
    return "\n".join(lines).rstrip() + "\n"


def _plain(text: str) -> str:
    return text.strip().replace("|", "\\|").replace("<", "&lt;")
