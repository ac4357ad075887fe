"""The report of a live audit: the same files, with what was done to the target in place of trials."""

from __future__ import annotations

from typing import Any

from exhume._version import __version__
from exhume.audit.levels import Level
from exhume.audit.live import audit_live
from exhume.audit.live_deletion import Owner
from exhume.audit.live_rows import audit_rows
from exhume.audit.next_steps import next_steps_live, today
from exhume.audit.records import CellRecord, Finding, LiveRecord, Report, Verdict
from exhume.audit.records_live import LiveDeletions
from exhume.audit.report import write_report
from exhume.audit.report.figures import rank_figure
from exhume.audit.settings import Settings
from exhume.audit.verdict import conclude_live
from exhume.audit.verdict_rows import conclude_rows
from exhume.protocol.target import ServiceTarget, Target
from exhume.simulate.statistics import clopper_pearson

__all__ = ["report_live", "report_rows"]

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


THREAT_ROWS = """\
This audit played clients of a live service, all the operator's, that send rows like everybody else. One of them added
its own rows in several messages, saw the public heads that answered, and deleted the rows again. Then records that the
audit knows were added and deleted one by one, and it was read from the heads around each deletion what had been
deleted. Every row was taken back. No record of anybody else was touched."""


def report_live(target: Target, settings: Settings, name: str, command: str, owner: Owner | None = None) -> Report:
    """Probe a live target and write the report into ``settings.out``; with an owner, play a whole deletion."""
    live = audit_live(target, settings, name, owner)
    threat = THREAT if owner is None else THREAT_DELETION
    return _reported(live, conclude_live(live), settings, command, threat)


def report_rows(
    target: ServiceTarget, settings: Settings, name: str, command: str, owner: ServiceTarget | None = None
) -> Report:
    """Probe a live service with rows, play deletions, and write the report into ``settings.out``."""
    live = audit_rows(target, settings, name, owner)
    return _reported(live, conclude_rows(live), settings, command, THREAT_ROWS)


def _reported(live: LiveRecord, found: Verdict, settings: Settings, command: str, threat: str) -> Report:
    name = live.target
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
    write_report(settings.out, report, (), [picture] if picture is not None else [], threat)
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
    return Finding.model_validate(empty | known | _of_deletions(live.deletions))


def _of_deletions(found: LiveDeletions | None) -> dict[str, Any]:
    """Return what played deletions add to a finding."""
    if found is None or not found.tries:
        return {}
    best = max(found.readers, key=lambda reader: (reader.labels_right, reader.features_right))
    low, high = clopper_pearson(best.labels_right, found.tries)
    return {
        "recovery": best.name,
        "kind": "record",
        "trials": found.tries,
        "labels_correct": best.labels_right,
        "labels_low": low,
        "labels_high": high,
        "labels_chance": found.chance,
        "labels_p": best.p,
        "replay_undone": found.replayed,
    }
