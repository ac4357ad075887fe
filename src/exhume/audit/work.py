"""What a worker does: one unit of a plan, as a record. Pure: the same unit gives the same record."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from exhume.attack.session import Attack
from exhume.attack.state import Diagnostics, diagnose_rank
from exhume.attack.transcript import Transcript
from exhume.audit.levels import THRESHOLDS
from exhume.audit.plan import Facing, Plan, Unit
from exhume.audit.records import CellRecord, RankPoint, RecoveryRecord, TrialRecord
from exhume.audit.records_defence import (
    CellService,
    ExposureRecord,
    PrivacyFigures,
    SiegeRecord,
    TrialService,
)
from exhume.defence.accountants import Identification
from exhume.errors import ExhumeError
from exhume.numerics import relative
from exhume.protocol.head import unit_roundoff
from exhume.protocol.rules import Exposure, Heads
from exhume.simulate import attackers
from exhume.simulate.federation import Federation
from exhume.simulate.lean import LeanCampaign
from exhume.simulate.listening import listen
from exhume.simulate.rules import figures_of
from exhume.simulate.siege import besiege
from exhume.simulate.trial import Campaign, Trial
from exhume.simulate.visibility import judge_messages

__all__ = ["KINDS_OF_RECORD", "AnyRecord", "is_faint", "rank_curve", "record_of", "work"]

CURVE_POINTS = 32

AVERAGED = 25
"""Heads that an averaging attacker collects on each side of a deletion."""

AnyRecord = CellRecord | TrialRecord | SiegeRecord

KINDS_OF_RECORD: dict[str, type[AnyRecord]] = {"cell": CellRecord, "trial": TrialRecord, "siege": SiegeRecord}


def work(plan: Plan, unit: Unit) -> dict[str, Any]:
    """Do one unit; whatever goes wrong in it becomes a record with its reason."""
    record = record_of(plan, unit)
    kind = next(name for name, model in KINDS_OF_RECORD.items() if isinstance(record, model))
    return {"kind": kind, "record": record.model_dump(mode="json")}


def record_of(plan: Plan, unit: Unit) -> AnyRecord:
    """Return the record of one unit."""
    try:
        if unit.attack is not None:
            return _siege(plan, unit.attack)
        campaign = _campaign(plan, unit.probe or "", unit.facing)
        return _cell(plan, campaign, unit) if unit.deletion is None else _trial(plan, campaign, unit)
    except (ExhumeError, np.linalg.LinAlgError, ArithmeticError) as error:
        return _failed(plan, unit, f"{type(error).__name__}: {error}")
    except Exception as error:
        # A probe or an encoder of somebody else's package may raise anything: one trial is lost, the run is not.
        return _failed(plan, unit, f"unexpected {type(error).__name__}: {error}")


def _failed(plan: Plan, unit: Unit, reason: str) -> AnyRecord:
    if unit.attack is not None:
        about = attackers.REGISTRY[unit.attack].about
        return SiegeRecord(attack=unit.attack, about=about, trials=len(plan.sieged()), error=reason)
    if unit.deletion is None:
        return CellRecord(
            probe=unit.probe or "",
            server=unit.facing.server,
            precision=unit.facing.precision,
            identified=False,
            error=reason,
        )
    return TrialRecord(
        probe=unit.probe or "",
        server=unit.facing.server,
        precision=unit.facing.precision,
        kind=unit.deletion.kind,
        number=unit.deletion.number,
        rows=len(plan.rows(unit.deletion)),
        identified=False,
        error=reason,
    )


def _campaign(plan: Plan, probe: str, facing: Facing) -> Campaign:
    return _lean_campaign(plan, probe, facing) if plan.lean else _full_campaign(plan, probe, facing)


@lru_cache(maxsize=8)
def _full_campaign(plan: Plan, probe: str, facing: Facing) -> Campaign:
    return Campaign(plan.federation(facing), plan.probe(probe), estimator=plan.settings.estimator)


_LEAN: dict[tuple[Plan, str, Facing], LeanCampaign] = {}
"""The one lean campaign that there is room for; tasks come grouped by probe and server."""


def _lean_campaign(plan: Plan, probe: str, facing: Facing) -> LeanCampaign:
    key = plan, probe, facing
    if key not in _LEAN:
        _LEAN.clear()
        _LEAN[key] = LeanCampaign(plan.federation(facing), plan.probe(probe), estimator=plan.settings.estimator)
    return _LEAN[key]


def _cell(plan: Plan, campaign: Campaign, unit: Unit) -> CellRecord:
    """Return what the probe sequence before any deletion gave."""
    found, outcome = campaign.diagnostics, campaign.outcome
    seen = judge_messages(plan.scenario, campaign.probe, np.random.default_rng([plan.settings.seed, 3]))
    bare = unit.facing.bare
    return CellRecord(
        probe=unit.probe or "",
        server=unit.facing.server,
        precision=unit.facing.precision,
        identified=campaign.before is not None,
        reason=campaign.reason,
        error=outcome.broken if bare else None,
        responses=outcome.responses,
        rank=None if found is None else found.rank_X,
        live=None if found is None else found.d,
        faint=found is not None and outcome.transcript is not None and is_faint(outcome.transcript, found),
        kappa=None if found is None else found.kappa_X,
        state_error=campaign.state_error,
        cancellation_residual=None if found is None else found.r_W,
        messages=seen.messages,
        flagged=seen.flagged,
        magnitude_ratio=seen.ratio,
        false_positives=seen.false_positives,
        curve=()
        if plan.lean or outcome.transcript is None or not outcome.responses
        else rank_curve(outcome.transcript),
        exposure=() if plan.lean else _watched_exposures(plan, unit) if bare else _exposures(campaign.federation),
        service=None if bare else _cell_service(campaign),
    )


def _cell_service(campaign: Campaign) -> CellService:
    outcome, uploads = campaign.outcome, campaign.federation.service
    return CellService(
        uploads=uploads.sent,
        uploads_refused=dict(uploads.refused),
        uploads_withheld=uploads.withheld,
        messages=outcome.sent,
        refused=dict(outcome.refused),
        withheld=outcome.withheld,
        standing=outcome.standing is not None,
    )


def _watched_exposures(plan: Plan, unit: Unit) -> tuple[ExposureRecord, ...]:
    """Return every client's exposure on the paper's server, by an accountant that only watches.

    The uploads and the probe are played once more on a server of their own: the cell that is judged stays as it is.
    """
    federation = Federation.behind(plan.scenario, Heads(unit.facing.precision))
    listen(Attack(federation.target()), plan.probe(unit.probe or ""))
    return _exposures(federation)


_IDENTIFICATION = ("rank", "needed", "current", "responses", "condition", "state_error")


def _exposures(federation: Federation) -> tuple[ExposureRecord, ...]:
    attacker = federation.attackers[0]
    return tuple(_exposure(name, found, name == attacker) for name, found in federation.exposures())


def _exposure(name: str, found: Exposure, attacker: bool) -> ExposureRecord:
    more = {n: getattr(found, n) for n in _IDENTIFICATION} if isinstance(found, Identification) else {}
    return ExposureRecord(client=name, attacker=attacker, value=found.value, meaning=found.meaning, **more)


def is_faint(transcript: Transcript, found: Diagnostics) -> bool:
    """Whether the weakest direction of the answers to a made-up probe is no longer than the rounding of a head."""
    if not transcript.moment_only or transcript.responses * transcript.c < found.d:
        return False  # too few answers are another matter
    start = transcript.reduced().baseline
    return found.sigma_min_X <= unit_roundoff(start.precision) * float(np.linalg.norm(start.weights))


def rank_curve(run: Transcript) -> tuple[RankPoint, ...]:
    """Return rank and relative smallest singular value of the response stack after more and more responses."""
    transcript = run.reduced()
    m, bound = transcript.responses, math.ceil(transcript.d / transcript.c)
    wanted = {int(j) for j in np.linspace(1, m, min(m, CURVE_POINTS)).round()}
    wanted |= {j for j in (bound - 1, bound, bound + 1) if 1 <= j <= m}
    points = []
    for j in sorted(wanted):
        found = diagnose_rank(transcript.first(j))[0]
        share = found.sigma_min_X / found.sigma_max_X if j >= bound and found.sigma_max_X > 0 else None
        points.append(RankPoint(responses=j, rank=found.rank_X, sigma_min=share))
    return tuple(points)


def _trial(plan: Plan, campaign: Campaign, unit: Unit) -> TrialRecord:
    """Return what one deletion under attack gave."""
    assert unit.deletion is not None
    scenario, rows = plan.scenario, plan.rows(unit.deletion)
    trial = campaign.trial(rows, plan.settings.recovery, unit.deletion.kind)
    done = trial.asked.refused is None
    return TrialRecord(
        probe=unit.probe or "",
        server=unit.facing.server,
        precision=unit.facing.precision,
        kind=unit.deletion.kind,
        number=unit.deletion.number,
        rows=trial.rows,
        identified=trial.identified,
        reason=trial.reason,
        error=campaign.outcome.broken if unit.facing.bare else None,
        label=trial.label,
        feature_guess_error=None if trial.label is None else _guess_error(plan, int(rows[0]), trial.label),
        deletion_head_change=relative(trial.head - campaign.W, campaign.W) if done else None,
        accuracy_before=scenario.accuracy(campaign.W),
        accuracy_after=scenario.accuracy(trial.head) if done else None,
        amplification=trial.amplification,
        state_error_pre=trial.state_error_pre,
        state_error_post=trial.state_error_post,
        rank_post=None if trial.post is None else trial.post.rank_X,
        kappa_post=None if trial.post is None else trial.post.kappa_X,
        recoveries=tuple(_recovery(plan, campaign, trial, scored.method) for scored in trial.recoveries),
        service=None if unit.facing.bare else _trial_service(plan, trial),
    )


def _guess_error(plan: Plan, row: int, label: int) -> float:
    """Return how close the attacker gets without attacking, were it told the label: its own mean of that class."""
    own, labels = plan.scenario.own
    mine = own[labels == label]
    feature = plan.scenario.features[row]
    return relative((mine if len(mine) else own).mean(axis=0) - feature, feature)


def _recovery(plan: Plan, campaign: Campaign, trial: Trial, method: str) -> RecoveryRecord:
    scored, replayed, first = trial.recovery(method), trial.replay(method), campaign.attack.cost
    assert scored is not None and replayed is not None and replayed.cost is not None
    # A replay that the server refused in every form was one more message, without an answer.
    lost = replayed.head is None and not campaign.federation.known.bare
    spent = replayed.cost
    names = (
        "relerr_gram",
        "relerr_moment",
        "relerr_feature",
        "label",
        "label_correct",
        "known",
        "min_eigenvalue",
        "membership",
    )
    return RecoveryRecord(
        recovery=method,
        **{name: getattr(scored, name) for name in names},
        replay_head_error=replayed.head_error,
        replay_head_error_psd=None if lost else replayed.head_error_psd,
        accuracy_replay=None if replayed.head is None else plan.scenario.accuracy(replayed.head),
        responses_first=spent.responses,
        responses_next=spent.responses - first.responses,
        messages_first=spent.messages,
        messages_next=spent.messages - first.messages,
    )


def _trial_service(plan: Plan, trial: Trial) -> TrialService:
    federation, outcome = trial.federation, trial.outcome
    exposed = {name: found.value for name, found in federation.exposures()}
    refused = trial.asked.refused is not None
    return TrialService(
        deletion_refused=trial.asked.refused,
        deletion_refused_by=trial.asked.rule,
        head_withheld=not refused and not trial.asked.released,
        accuracy_public=None if trial.public is None else plan.scenario.accuracy(trial.public),
        messages=0 if outcome is None else outcome.sent,
        refused={} if outcome is None else dict(outcome.refused),
        withheld=0 if outcome is None else outcome.withheld,
        replays_refused={r.method: 1 for r in trial.replays if r.refused is not None},
        exposure=exposed.get(federation.attackers[0]),
        privacy=None if refused else _privacy(federation, trial.asked.number),
    )


def _privacy(federation: Federation, number: int) -> PrivacyFigures | None:
    """Return the figures of one deletion that the settings keep; of several accounts or clients, the worst one's."""
    found = figures_of(federation.server, number)
    return None if found is None else PrivacyFigures(**{name: found[name] for name in PrivacyFigures.model_fields})


def _siege(plan: Plan, name: str) -> SiegeRecord:
    """Return what an attacker that knows the settings gets out of them."""
    assert plan.defence is not None and plan.dealt is not None
    attacker, records = attackers.REGISTRY[name], plan.sieged()
    score = besiege(_sieged(plan), attacker, records, averaged=AVERAGED, seed=plan.settings.seed)
    errors = score.feature_errors
    return SiegeRecord(
        attack=name,
        about=attacker.about,
        trials=score.trials,
        guessed=score.guessed,
        labels_correct=score.labels if attacker.aim == "read" else None,
        features_right=sum(error <= THRESHOLDS.feature_error for error in errors) if attacker.aim == "read" else None,
        relerr_feature=float(np.median(errors)) if errors else None,
        replays=score.replays,
        messages=score.messages,
        refused=dict(score.refused),
        reason=score.failures.most_common(1)[0][0] if score.failures else None,
    )


@lru_cache(maxsize=1)
def _sieged(plan: Plan) -> Federation:
    assert plan.defence is not None and plan.dealt is not None
    return Federation.behind(plan.dealt, plan.defence, seed=plan.settings.seed, carrier=plan.carrier)
