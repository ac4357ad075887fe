"""What a worker does on a server with settings of its own: one cell's diagnostics or one trial, as a record."""

from __future__ import annotations

from exhume.audit.configured import CONFIGURED
from exhume.audit.defended import DefendedCell, DefendedTrial, Found
from exhume.audit.exposure import exposures
from exhume.audit.federation import Federation
from exhume.audit.measures import accuracy, cell_fields, guess_error, rank_curve, recovery_fields
from exhume.audit.plan import Plan, Task
from exhume.audit.records import CellRecord, RecoveryRecord, TrialRecord
from exhume.audit.records_defence import CellService, PrivacyFigures, TrialService
from exhume.numerics import relative

__all__ = ["attack_defended", "defended_cell", "diagnose_defended", "federation_of"]


def federation_of(plan: Plan) -> Federation:
    """Return the federation of the plan's own settings, all uploads made."""
    assert plan.defence is not None
    return Federation.configured(plan.scenario, plan.defence, plan.settings.seed)


def defended_cell(plan: Plan, probe: str) -> DefendedCell:
    """Return the cell of one probe against the configured server."""
    return DefendedCell(federation_of(plan), plan.probe(probe), nonnegative=plan.nonnegative)


def diagnose_defended(plan: Plan, cell: DefendedCell) -> CellRecord:
    """Return what the probe sequence before any deletion gave."""
    heard, uploads = cell.heard, cell.federation.uploads
    return CellRecord(
        **cell_fields(plan, cell.probe, cell.diagnostics),
        heads=CONFIGURED,
        identified=cell.before is not None,
        reason=cell.reason,
        responses=heard.responses,
        state_error=cell.state_error,
        curve=() if heard.transcript is None or not heard.responses else rank_curve(heard.transcript),
        exposure=exposures(cell.federation),
        service=CellService(
            uploads=uploads.sent,
            uploads_refused=dict(uploads.refused),
            uploads_withheld=uploads.withheld,
            messages=heard.sent,
            refused=dict(heard.refused),
            withheld=heard.withheld,
            standing=heard.standing is not None,
        ),
    )


def attack_defended(plan: Plan, cell: DefendedCell, task: Task) -> TrialRecord:
    """Return what one deletion under attack gave."""
    assert task.deletion is not None
    rows = plan.rows(task.deletion)
    trial = cell.trial(rows, plan.settings.recovery)
    label = int(plan.scenario.labels[rows[0]]) if len(rows) == 1 else None
    done = trial.asked.refused is None
    return TrialRecord(
        probe=task.probe,
        heads=CONFIGURED,
        delete=task.deletion.kind,
        what=task.deletion.what,
        rows=len(rows),
        identified=trial.identified,
        reason=trial.reason,
        label=label,
        feature_guess_error=None if label is None else guess_error(plan, plan.scenario.features[rows[0]], label),
        deletion_head_change=relative(trial.head - cell.W, cell.W) if done else None,
        accuracy_before=accuracy(plan, cell.W),
        accuracy_after=accuracy(plan, trial.head) if done else None,
        state_error_pre=cell.state_error,
        state_error_post=trial.state_error_post,
        rank_post=None if trial.post is None else trial.post.rank_X,
        kappa_post=None if trial.post is None else trial.post.kappa_X,
        recoveries=tuple(_recovery(plan, cell, found) for found in trial.found),
        service=_service(plan, trial),
    )


def _recovery(plan: Plan, cell: DefendedCell, found: Found) -> RecoveryRecord:
    scored, first, head = found.scored, cell.attack.cost, found.replayed
    return RecoveryRecord(
        **recovery_fields(scored),
        replay_head_error=None if head is None else relative(head - cell.W, cell.W),
        accuracy_replay=None if head is None else accuracy(plan, head),
        responses_first=found.cost.responses,
        responses_next=found.cost.responses - first.responses,
        messages_first=found.cost.messages,
        messages_next=found.cost.messages - first.messages,
    )


def _service(plan: Plan, trial: DefendedTrial) -> TrialService:
    federation, heard = trial.federation, trial.heard
    exposed = {name: found.value for name, found in federation.exposures()}
    return TrialService(
        deletion_refused=trial.asked.refused,
        head_withheld=trial.asked.refused is None and not trial.asked.released,
        accuracy_public=None if trial.public is None else accuracy(plan, trial.public),
        messages=0 if heard is None else heard.sent,
        refused={} if heard is None else dict(heard.refused),
        withheld=0 if heard is None else heard.withheld,
        replays_refused={f.scored.method: 1 for f in trial.found if f.refused is not None},
        exposure=exposed.get(federation.attacker),
        privacy=_privacy(trial),
    )


def _privacy(trial: DefendedTrial) -> PrivacyFigures | None:
    """Return the figures of this deletion that the settings keep; of several accounts or clients, the worst one's."""
    if trial.asked.refused is not None:
        return None
    found = [d for rule in trial.federation.accounts for d in rule.deletions if d.number == trial.asked.number]
    if not found:
        return None
    figures = max(found, key=lambda d: d.total).figures()
    return PrivacyFigures(**{name: figures[name] for name in PrivacyFigures.model_fields})
