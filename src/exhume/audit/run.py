"""One audit from settings to report: the steps in order, for the command line and for Python users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exhume._version import __version__
from exhume.audit.effect import effect_of
from exhume.audit.explain import explain
from exhume.audit.findings import judge
from exhume.audit.next_steps import in_full, next_steps, today
from exhume.audit.outcome import Outcome, carry_out
from exhume.audit.plan import BARE, Plan, prepare
from exhume.audit.records import Report, TrialRecord
from exhume.audit.remedy import remedy_for
from exhume.audit.report import write_report
from exhume.audit.report.figures import (
    Illustration,
    accuracy_figure,
    bound_figure,
    digits_figure,
    label_figure,
    rank_figure,
)
from exhume.audit.report.pictures import gallery
from exhume.audit.settings import ASIDE, Settings
from exhume.audit.verdict import conclude
from exhume.audit.verdict_defended import conclude_defended
from exhume.data import FeatureSet, sets
from exhume.jobs.progress import Progress
from exhume.simulate.rules import name_of

__all__ = ["Audit", "assess", "audit"]


@dataclass(frozen=True)
class Audit:
    """A finished audit."""

    report: Report
    page: Path
    reused: int
    """Trials that an earlier run had finished."""
    total: int
    carried_out: int
    """Trials that ran to their end, whatever they found: a deletion that own settings refused did not."""

    @property
    def severity(self) -> str | None:
        """The worst level that any finding reaches; None where there is no verdict."""
        return self.report.verdict.severity

    def _repr_html_(self) -> str:
        """Return the whole report, for a notebook."""
        return self.page.read_text(encoding="utf-8")

    def __repr__(self) -> str:
        return f"Audit({(self.severity or 'no verdict').upper()}, {self.total} trials, '{self.page}')"

    def __str__(self) -> str:
        return in_full(self.report.verdict)


def audit(
    settings: Settings,
    *,
    command: str = "exhume audit",
    fresh: bool = False,
    progress: Progress | None = None,
    plan: Plan | None = None,
    given: FeatureSet | None = None,
) -> Audit:
    """Run an audit and write its report into ``settings.out``.

    Parameters
    ----------
    settings
        What to do.
    command
        The command that the report names as its origin.
    fresh
        Whether to forget trials that an earlier run finished.
    progress
        Called as trials get done.
    plan
        What `prepare` made of the settings, if that was done before.
    given
        Features to audit in place of those that the settings name.
    """
    plan = prepare(settings, given=given) if plan is None else plan
    outcome, report = assess(settings, command=command, fresh=fresh, progress=progress, plan=plan)
    threat = explain(settings, plan.features.dim, plan.features.classes, plan.defence)
    page = write_report(settings.out, report, outcome.trials, _pictures(plan, outcome, report), threat)
    # An audit of settings is about their server: what the bare one gave beside it proves nothing of them.
    own = [
        trial for trial in outcome.trials if plan.defence is None or trial.service is not None or trial.server != BARE
    ]
    carried_out = sum(_carried_out(trial) for trial in own)
    return Audit(report, page, outcome.reused, outcome.total, carried_out)


def assess(
    settings: Settings,
    *,
    command: str = "exhume audit",
    fresh: bool = False,
    progress: Progress | None = None,
    plan: Plan | None = None,
) -> tuple[Outcome, Report]:
    """Run an audit and judge it, without drawing or writing anything but the finished trials."""
    plan = prepare(settings) if plan is None else plan
    if plan.defence is not None:
        plan.federation(plan.facings[0])  # settings that cannot be played are refused before any trial
    outcome = carry_out(plan, settings.out / ".trials", fresh=fresh, progress=progress)
    report = _report(plan, outcome, command)
    remedy = remedy_for(plan, report.verdict.severity, progress=progress)
    verdict = report.verdict.model_copy(update={"next_steps": next_steps(settings, report, remedy)})
    return outcome, report.model_copy(update={"remedy": remedy, "verdict": verdict})


def _carried_out(trial: TrialRecord) -> bool:
    return trial.error is None and (trial.service is None or trial.service.deletion_refused is None)


def _pictures(plan: Plan, outcome: Outcome, report: Report) -> list[Illustration]:
    made = [
        digits_figure(gallery(plan)),
        label_figure(report.findings),
        rank_figure(outcome.cells, plan.features.dim, plan.features.classes),
        bound_figure(outcome.trials),
        accuracy_figure(outcome.trials),
    ]
    return [picture for picture in made if picture is not None]


def _report(plan: Plan, outcome: Outcome, command: str) -> Report:
    findings = judge(plan, outcome)
    effect = effect_of(plan, outcome, findings)
    found, scenario = plan.features, plan.scenario
    gate = (
        "not looked at among so many features"
        if plan.usable is None
        else f"{len(plan.usable)} of {len(scenario.parts)} clients have full feature rank {found.dim}"
    )
    live = int(scenario.own[0].any(axis=0).sum())
    few = "" if scenario.shown is None else f" (the first {len(scenario.own[1]):,})"
    return Report(
        version=__version__,
        date=today(),
        command=command,
        seed=plan.settings.seed,
        settings=_settings(plan.settings),
        data={
            "name": found.data,
            "encoder": found.encoder,
            "dim": found.dim,
            "classes": found.classes,
            "train": len(found.train_labels),
            "test": len(found.test_labels if scenario.test_labels is None else scenario.test_labels),
            "sha256": _content_hash(found.data),
            "fingerprint": found.fingerprint,
        },
        scenario={
            "clients": [len(part) for part in scenario.parts],
            "attacker": f"client {scenario.attacker} with {len(scenario.parts[scenario.attacker])} rows",
            "live features": f"{live} of {found.dim} are not zero in all of the attacker's rows{few}",
            "rank gate": gate if plan.usable else f"{gate}; the largest client attacks",
        }
        | ({} if plan.left_out is None else {"left out": plan.left_out}),
        verdict=conclude(findings, outcome.cells, found.classes)
        if effect is None
        else conclude_defended(effect, findings, outcome.cells),
        findings=findings,
        cells=outcome.cells,
        failures=tuple(_failures(outcome)),
        defence=effect,
    )


def _content_hash(data: str) -> str:
    entry = sets.REGISTRY.get(data)
    return entry.sha256 if entry is not None else "see fingerprint, which hashes the files"


def _settings(settings: Settings) -> dict[str, Any]:
    """Return the settings without what belongs to one machine: where files lie, how many processes ran."""
    local = {"out", "home", "features", "labels"} | (ASIDE - {"fail_on"})
    defence = None if settings.defence is None else name_of(settings.defence)
    return settings.model_dump(mode="json", exclude=local) | {"dim": settings.width, "defence": defence}


def _failures(outcome: Outcome) -> Sequence[dict[str, str]]:
    """Gather what went wrong: once per cell, kind of deletion and reason, with its count."""
    reasons: Counter[tuple[str, str]] = Counter()
    for cell in outcome.cells:
        if reason := cell.error or cell.reason:
            reasons[f"{cell.probe}, {_server(cell.server, cell.precision)}, before the deletion", reason] += 1
    for trial in outcome.trials:
        if reason := trial.error or trial.reason:
            reasons[f"{trial.probe}, {_server(trial.server, trial.precision)}, {trial.kind}", reason] += 1
    for siege in outcome.sieges:
        if siege.error:
            reasons[f"attacker {siege.attack}", siege.error] += 1
    return [{"where": w, "reason": r, "count": str(n)} for (w, r), n in reasons.items()]


def _server(server: str, precision: str) -> str:
    return precision if server == "bare" else server
