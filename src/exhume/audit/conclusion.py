"""What follows from a report: what changed, what is accepted, what other programs read, and whether it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from exhume.audit.accepted import Risk, accept
from exhume.audit.commands import shown
from exhume.audit.compare import Earlier, compare
from exhume.audit.items import items_of
from exhume.audit.levels import as_level, at_least
from exhume.audit.records import Report
from exhume.audit.report.exports import Exported, junit_text, markdown_text, sarif_text
from exhume.audit.settings import WORSE, Settings
from exhume.simulate.rules import HARDENED

__all__ = ["Conclusion", "conclusion_of"]


@dataclass(frozen=True)
class Conclusion:
    """What a command still has to write, say and return."""

    files: dict[Path, str | bytes]
    lines: list[str]
    fails: bool


def conclusion_of(
    report: Report, settings: Settings, earlier: Earlier | None = None, risks: Sequence[Risk] = ()
) -> Conclusion:
    """Set a report beside an earlier one and the accepted risks; its own date decides which of them have expired."""
    items = items_of(report)
    acceptance = accept(risks, items, date.fromisoformat(report.date[:10]))
    changes = None if earlier is None else compare(earlier, items)
    level = None if settings.fail_on in (None, WORSE) else as_level(settings.fail_on or "")
    where = settings.defence if settings.defence not in (None, HARDENED) else "report.html"
    found = Exported(report, items, acceptance, changes, level or "aggregate", shown(where or ""))
    wanted = (
        (settings.sarif, sarif_text),
        (settings.junit, junit_text),
        (settings.markdown, markdown_text),
    )
    left = acceptance.severity(items) if acceptance.covered else report.verdict.severity
    worsened = changes.worsened() if changes is not None and settings.fail_on == WORSE else []
    worse = any(name not in acceptance.covered for name in worsened)
    return Conclusion(
        {path: write(found) for path, write in wanted if path is not None},
        [*(changes.lines() if changes else []), *acceptance.lines(items)],
        worse or (level is not None and at_least(left, level)),
    )
