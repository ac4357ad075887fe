"""What a worker does: one cell's diagnostics or one trial, as a record. Pure: the same task gives the same record."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from exhume.attack._linalg import relative
from exhume.attack.identify import diagnose_rank
from exhume.attack.transcript import Transcript
from exhume.audit.config import Settings
from exhume.audit.detect import judge_messages
from exhume.audit.plan import Plan, Task, prepare
from exhume.audit.records import CellRecord, RankPoint, RecoveryRecord, TrialRecord
from exhume.audit.scenario import Matrix
from exhume.audit.trial import Cell, Replay, Trial
from exhume.errors import ExhumeError, SingularStateError
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.summary import Summary, Update

__all__ = ["do", "rank_curve"]

CURVE_POINTS = 32


@lru_cache(maxsize=2)
def _plan(settings: str) -> Plan:
    return prepare(Settings.model_validate_json(settings))


@lru_cache(maxsize=8)
def _cell(settings: str, probe: str, heads: str) -> Cell:
    plan = _plan(settings)
    return Cell(plan.scenario, plan.probe(probe), heads, nonnegative=plan.nonnegative)


def do(settings: str, task: Task) -> CellRecord | TrialRecord:
    """Do one task; whatever goes wrong in it becomes a record with its reason."""
    try:
        plan, cell = _plan(settings), _cell(settings, task.probe, task.heads)
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


def rank_curve(transcript: Transcript) -> tuple[RankPoint, ...]:
    """Return rank and relative smallest singular value of the response stack after more and more responses."""
    m, bound = transcript.responses, math.ceil(transcript.d / transcript.c)
    wanted = {int(j) for j in np.linspace(1, m, min(m, CURVE_POINTS)).round()}
    wanted |= {j for j in (bound - 1, bound, bound + 1) if 1 <= j <= m}
    points = []
    for j in sorted(wanted):
        found = diagnose_rank(transcript.first(j))[0]
        share = found.sigma_min_X / found.sigma_max_X if j >= bound and found.sigma_max_X > 0 else None
        points.append(RankPoint(responses=j, rank=found.rank_X, sigma_min=share))
    return tuple(points)


def _diagnose(plan: Plan, cell: Cell) -> CellRecord:
    found = cell.diagnostics
    seen = judge_messages(plan.scenario, cell.probe, np.random.default_rng([plan.settings.seed, 3]))
    return CellRecord(
        probe=cell.probe.name,
        heads=cell.heads,
        identified=cell.before is not None,
        reason=cell.reason,
        responses=cell.transcript.responses,
        rank=None if found is None else found.rank_X,
        kappa=None if found is None else found.kappa_X,
        state_error=cell.state_error,
        cancellation_residual=None if found is None else found.r_W,
        messages=seen.messages,
        flagged=seen.flagged,
        magnitude_ratio=seen.ratio,
        false_positives=seen.false_positives,
        curve=rank_curve(cell.transcript),
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
        feature_guess_error=None
        if trial.label is None
        else _guess_error(plan, scenario.features[rows[0]], trial.label),
        deletion_head_change=relative(head - cell.W, cell.W),
        accuracy_before=_accuracy(plan, cell.W),
        accuracy_after=_accuracy(plan, head),
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
    spare, accuracy = after.copy(), None
    try:
        spare.apply(Update.adding(block))
        accuracy = _accuracy(plan, spare.head())
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
        recovery=method,
        relerr_gram=scored.relerr_gram,
        relerr_moment=scored.relerr_moment,
        relerr_feature=scored.relerr_feature,
        label=scored.label,
        label_correct=scored.label_correct,
        known=scored.known,
        min_eigenvalue=scored.min_eigenvalue,
        replay_head_error=replay.head_error,
        replay_head_error_psd=replay.head_error_psd,
        accuracy_replay=accuracy,
        responses_first=first.responses + following[0],
        responses_next=following[0],
        messages_first=first.messages + following[1],
        messages_next=following[1],
    )


def _accuracy(plan: Plan, weights: Matrix) -> float | None:
    found = plan.features
    return Head(weights).accuracy(found.test_features, found.test_labels) if len(found.test_labels) else None


def _guess_error(plan: Plan, feature: Matrix, label: int) -> float:
    """Return how close the attacker gets without attacking, were it told the label: its own mean of that class."""
    own, labels = plan.scenario.own
    mine = own[labels == label]
    guess = (mine if len(mine) else own).mean(axis=0)
    return relative(guess - feature, feature)
