"""What a worker does: one cell's diagnostics or one trial, as a record. Pure: the same task gives the same record."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from exhume.attack._linalg import relative
from exhume.audit.config import Settings
from exhume.audit.configured import CONFIGURED
from exhume.audit.defended import DefendedCell
from exhume.audit.defended_work import attack_defended, defended_cell, diagnose_defended
from exhume.audit.exposure import bare_exposures
from exhume.audit.measures import accuracy, cell_fields, guess_error, rank_curve, recovery_fields
from exhume.audit.plan import Plan, Task, prepare
from exhume.audit.records import CellRecord, RecoveryRecord, TrialRecord
from exhume.errors import ExhumeError, SingularStateError
from exhume.protocol.ledger import Ledger
from exhume.protocol.summary import Summary, Update
from exhume.simulate.trial import Cell, Replay, Trial

__all__ = ["do"]


@lru_cache(maxsize=2)
def _plan(settings: str) -> Plan:
    return prepare(Settings.model_validate_json(settings))


@lru_cache(maxsize=8)
def _cell(settings: str, probe: str, heads: str) -> Cell | DefendedCell:
    plan = _plan(settings)
    if heads == CONFIGURED:
        return defended_cell(plan, probe)
    return Cell(plan.scenario, plan.probe(probe), heads, nonnegative=plan.nonnegative)


def do(settings: str, task: Task) -> CellRecord | TrialRecord:
    """Do one task; whatever goes wrong in it becomes a record with its reason."""
    try:
        plan, cell = _plan(settings), _cell(settings, task.probe, task.heads)
        if isinstance(cell, DefendedCell):
            return diagnose_defended(plan, cell) if task.deletion is None else attack_defended(plan, cell, task)
        return _diagnose(plan, cell) if task.deletion is None else _attack(plan, cell, task)
    except (ExhumeError, np.linalg.LinAlgError, ArithmeticError) as error:
        reason = f"{type(error).__name__}: {error}"
    except Exception as error:
        # A probe or an encoder of somebody else's package may raise anything: one trial is lost, the run is not.
        reason = f"unexpected {type(error).__name__}: {error}"
    if task.deletion is None:
        return CellRecord(probe=task.probe, heads=task.heads, identified=False, error=reason)
    return TrialRecord(
        probe=task.probe,
        heads=task.heads,
        delete=task.deletion.kind,
        what=task.deletion.what,
        rows=len(_plan(settings).rows(task.deletion)),
        identified=False,
        error=reason,
    )


def _diagnose(plan: Plan, cell: Cell) -> CellRecord:
    return CellRecord(
        **cell_fields(plan, cell.probe, cell.diagnostics),
        heads=cell.heads,
        identified=cell.before is not None,
        reason=cell.reason,
        responses=cell.transcript.responses,
        state_error=cell.state_error,
        curve=rank_curve(cell.transcript),
        exposure=bare_exposures(plan, cell.probe.name, cell.heads),
    )


def _attack(plan: Plan, cell: Cell, task: Task) -> TrialRecord:
    assert task.deletion is not None
    scenario, rows = plan.scenario, plan.rows(task.deletion)
    trial = cell.trial(rows, plan.settings.recovery, keep_blocks=True)
    deleted = scenario.summary(rows)
    after = cell.server.ledger.copy()
    after.apply(Update.deleting(deleted))
    head = after.head()
    return TrialRecord(
        probe=task.probe,
        heads=task.heads,
        delete=task.deletion.kind,
        what=task.deletion.what,
        rows=trial.rows,
        identified=trial.identified,
        reason=trial.reason,
        label=trial.label,
        feature_guess_error=None if trial.label is None else guess_error(plan, scenario.features[rows[0]], trial.label),
        deletion_head_change=relative(head - cell.W, cell.W),
        accuracy_before=accuracy(plan, cell.W),
        accuracy_after=accuracy(plan, head),
        amplification=trial.amplification,
        state_error_pre=trial.state_error_pre,
        state_error_post=trial.state_error_post,
        rank_post=None if trial.post is None else trial.post.rank_X,
        kappa_post=None if trial.post is None else trial.post.kappa_X,
        recoveries=tuple(_recovery(plan, cell, trial, after, method, block) for method, block in _blocks(trial)),
    )


def _blocks(trial: Trial) -> list[tuple[str, Summary]]:
    return [(method, block.summary) for method, block in trial.blocks]


def _recovery(plan: Plan, cell: Cell, trial: Trial, after: Ledger, method: str, block: Summary) -> RecoveryRecord:
    scored = trial.recovery(method)
    assert scored is not None
    replay = next((r for r in trial.replays if r.method == method), None)
    spare, reached = after.copy(), None
    try:
        spare.apply(Update.adding(block))
        reached = accuracy(plan, spare.head())
        # A record's own gram is positive semidefinite: for rank-one recovery, raw and projected are the same.
        error = relative(spare.head() - cell.W, cell.W)
        replay = replay or Replay(method, error, error, scored.relerr_gram)
    except SingularStateError:
        replay = replay or Replay(method, math.inf, None, None)
    first, spent = cell.attack.cost, trial.cost
    following = (spent.responses - first.responses, spent.messages - first.messages)
    if method == "rank_one":  # the head after the deletion, then the replay and its head
        following = (2, 1)
    return RecoveryRecord(
        **recovery_fields(scored),
        replay_head_error=replay.head_error,
        replay_head_error_psd=replay.head_error_psd,
        accuracy_replay=reached,
        responses_first=first.responses + following[0],
        responses_next=following[0],
        messages_first=first.messages + following[1],
        messages_next=following[1],
    )
