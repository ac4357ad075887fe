"""The report of a live audit: the same files, with what was done to the target in place of trials."""

from __future__ import annotations

from exhume._version import __version__
from exhume.audit.levels import Level
from exhume.audit.live import audit_live
from exhume.audit.live_deletion import Owner
from exhume.audit.next_steps import next_steps_live, today
from exhume.audit.records import CellRecord, Finding, LiveRecord, Report
from exhume.audit.report import write_report
from exhume.audit.report.figures import rank_figure
from exhume.audit.settings import Settings
from exhume.audit.verdict import conclude_live
from exhume.protocol.target import Target

__all__ = ["report_live"]

THREAT = """\
This audit played one client of a live server. It saw only the public heads and sent only updates that it could take
back: updates of growing size and their undo first, then identification probes, then one probe to test what it had read,
and it cancelled each sequence. It deleted nothing and replayed nothing.

What it shows is whether the hidden totals can be read. By Proposition 2, whoever reads them before and after a
deletion has the deleted sums. How exactly one record comes out depends on head precision and conditioning: a
simulated audit with features like yours measures that."""

THREAT_DELETION = """\
This audit played two clients of a live server, both the operator's. One added a test record of the operator's and later
deleted it. The other saw only the public heads: it sent probes and took them back, read the record from the head after
the deletion, put it back, and took that back too. No record of anybody else was touched."""


def report_live(target: Target, settings: Settings, name: str, command: str, owner: Owner | None = None) -> Report:
    """Probe a live target and write the report into ``settings.out``; with an owner, play a whole deletion."""
    live = audit_live(target, settings, name, owner)
    found = conclude_live(live)
    verdict = found.model_copy(update={"next_steps": next_steps_live(live, found.severity)})
    cell = CellRecord(
        probe=live.probe,
        server=name,
        precision=live.precision,
        identified=live.identified,
        reason=live.reason,
        responses=live.curve[-1].responses if live.curve else 0,
        rank=live.rank,
        live=live.live,
        faint=live.faint,
        kappa=live.kappa,
        cancellation_residual=live.residual,
        curve=live.curve,
    )
    report = Report(
        version=__version__,
        date=today(),
        command=command,
        seed=settings.seed,
        settings={"target": name, "probe": live.probe, "scale": live.scale, "seed": settings.seed},
        data={"name": "live", "encoder": "live", "dim": live.dim, "classes": live.classes},
        scenario={"target": name},
        verdict=verdict,
        findings=(_finding(live, verdict.severity),),
        cells=(cell,),
        failures=({"where": live.probe, "reason": live.reason, "count": "1"},) if live.reason else (),
        live=live,
    )
    picture = rank_figure([cell], live.dim, live.classes)
    write_report(
        settings.out, report, (), [picture] if picture is not None else [], THREAT if owner is None else THREAT_DELETION
    )
    return report


def _finding(live: LiveRecord, severity: Level | None) -> Finding:
    """Return the live outcome as a finding: what needs a known truth to be scored is null."""
    empty = dict.fromkeys(name for name in Finding.model_fields)
    known = {
        "data": "live",
        "encoder": "live",
        "dim": live.dim,
        "probe": live.probe,
        "server": live.target,
        "precision": live.precision,
        "recovery": "identify",
        "kind": "nothing",
        "trials": 1,
        "identified": int(live.identified),
        "rank": live.rank,
        "kappa": live.kappa,
        "responses_first": live.responses,
        "messages_first": live.messages,
        "messages_flagged": 0,
        "messages_probe": 0,
        "reached": ("none",) if severity in (None, "none") else ("none", severity),
        "severity": severity or "none",
        "reason": live.reason,
    }
    return Finding.model_validate(empty | known)
