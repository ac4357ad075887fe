"""Who sends what to whom, and what leaks: the words of the picture at the top of the report."""

from __future__ import annotations

from dataclasses import dataclass

from exhume.audit.levels import LEVELS, Level
from exhume.audit.plan import BARE
from exhume.audit.records import Finding, Report
from exhume.audit.verdict import quantity
from exhume.audit.verdict_defended import best_siege

__all__ = ["Flow", "flow_of"]


@dataclass(frozen=True)
class Flow:
    """What the picture says of one audit."""

    clients: str
    server: str
    probes: str
    leaks: tuple[str, ...]
    level: Level | None

    @property
    def alt(self) -> str:
        """The picture in words."""
        return (
            f"{self.clients} send sums of rows to the server. The attacker, one of the clients, sends {self.probes}. "
            f"The server sends every head to all of them. What leaks to the attacker: {'; '.join(self.leaks)}."
        )


def flow_of(report: Report) -> Flow:
    """Return the words of a report's picture."""
    level = report.verdict.severity
    if report.live is not None:
        if report.live.deletions is not None:
            told = (*_leaks(list(report.findings)), *_undone(level))
        else:
            told = ("the hidden totals" if level == "aggregate" else "nothing that this audit could read",)
        return Flow("Honest clients", report.live.target, f"{report.live.probe} probes", told, level)
    ours = [f for f in report.findings if report.defence is None or f.server != BARE]
    probes = " and ".join(dict.fromkeys(f.probe for f in ours))
    count = len(report.scenario["clients"]) - 1
    server = "paper's server" if report.defence is None else f"settings: {report.defence.name}"
    leaks = (*_leaks(ours), *_besieged(report), *_undone(level)) or ("no verdict",)
    return Flow(f"{count} honest clients", server, f"{probes} probes", leaks, level)


def _leaks(findings: list[Finding]) -> tuple[str, ...]:
    """Say what the probes got of single records."""
    sample = [f for f in findings if f.labels_correct is not None]
    lines = []
    if sample and any(f.identified for f in sample):
        best = max(sample, key=lambda f: (f.labels_correct or 0, -_error(f)))
        lines.append(f"label: {best.labels_correct} of {best.trials} right (guessing {best.labels_chance or 0:.0%})")
        if best.relerr_feature is not None:
            lines.append(f"features: off by {quantity(best.relerr_feature.median)} (0 is exact)")
    elif sample:
        lines.append(f"label and features: no estimate in {sample[0].trials}")
    return tuple(lines)


def _besieged(report: Report) -> tuple[str, ...]:
    """Say what the best attacker that knows the settings got: the level may be its."""
    best = None if report.defence is None else best_siege(report.defence)
    if best is None:
        return ()
    return (f"to one that knows the settings: {best.labels_correct} of {best.trials} labels",)


def _undone(level: Level | None) -> tuple[str, ...]:
    return () if level is None else ("put back: yes" if level == LEVELS[-1] else "put back: no",)


def _error(finding: Finding) -> float:
    error = finding.relerr_feature.median if finding.relerr_feature else None
    return 1e300 if error is None else error
