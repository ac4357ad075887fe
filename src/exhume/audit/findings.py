"""From trials to judged findings: counts with exact intervals, errors, cost, detectability, severity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.stats import binomtest

from exhume.attack import recover
from exhume.audit.levels import LEVELS, THRESHOLDS, Level, Thresholds
from exhume.audit.outcome import Outcome
from exhume.audit.plan import Plan
from exhume.audit.records import CellRecord, Finding, RecoveryRecord, Spread, TrialRecord
from exhume.simulate.statistics import clopper_pearson

__all__ = ["judge", "levels_reached"]


def judge(plan: Plan, outcome: Outcome) -> tuple[Finding, ...]:
    """Judge every combination of probe, server, recovery and kind of deletion that was run."""
    groups: dict[tuple[str, str, str, str], list[TrialRecord]] = {}
    for trial in outcome.trials:
        groups.setdefault((trial.kind, trial.probe, trial.server, trial.precision), []).append(trial)
    cells = {(cell.probe, cell.server, cell.precision): cell for cell in outcome.cells}
    return tuple(
        _finding(plan, cells[probe, server, precision], trials, recovery, kind)
        for (kind, probe, server, precision), trials in groups.items()
        for recovery in plan.settings.recovery
        if kind in recover.REGISTRY[recovery].kinds
    )


def _finding(plan: Plan, cell: CellRecord, trials: Sequence[TrialRecord], recovery: str, kind: str) -> Finding:
    pairs = [(t, r) for t in trials if (r := t.of(recovery)) is not None]
    n, identified = len(trials), len(pairs)
    low, high = clopper_pearson(identified, n)
    labels: dict[str, Any] = _labels(plan, trials, pairs) if kind == "record" else _NO_LABELS
    reached = levels_reached(trials, recovery, labels["labels_p"])
    costs = [(r.responses_first, r.responses_next, r.messages_first, r.messages_next) for _, r in pairs]
    first = costs[0] if costs else (None,) * 4
    return Finding(
        data=plan.features.data,
        encoder=plan.features.encoder,
        dim=plan.features.dim,
        probe=cell.probe,
        server=cell.server,
        precision=cell.precision,
        recovery=recovery,
        kind=kind,
        trials=n,
        identified=identified,
        identified_low=low,
        identified_high=high,
        **labels,
        relerr_gram=_spread(r.relerr_gram for _, r in pairs),
        relerr_moment=_spread(r.relerr_moment for _, r in pairs),
        relerr_feature=_spread(r.relerr_feature for _, r in pairs),
        feature_guess_error=_median(t.feature_guess_error for t in trials),
        rank=cell.rank,
        kappa=cell.kappa,
        responses_first=first[0],
        responses_next=first[1],
        messages_first=first[2],
        messages_next=first[3],
        replay_head_error=_median(r.replay_head_error for _, r in pairs),
        replay_head_error_psd=_median(r.replay_head_error_psd for _, r in pairs),
        replay_undone=_median(_undone(t, r) for t, r in pairs),
        membership=_median(r.membership for _, r in pairs),
        messages_flagged=cell.flagged,
        messages_probe=cell.messages,
        magnitude_ratio=cell.magnitude_ratio,
        reached=reached,
        severity=reached[-1],
        reason=_reason(trials, recovery),
    )


def _reason(trials: Sequence[TrialRecord], recovery: str) -> str | None:
    reasons = Counter(t.error or t.reason for t in trials if t.of(recovery) is None)
    return reasons.most_common(1)[0][0] if reasons else None


_NO_LABELS: dict[str, None] = dict.fromkeys(
    ("labels_correct", "labels_low", "labels_high", "labels_chance", "labels_p")
)


def _labels(
    plan: Plan, trials: Sequence[TrialRecord], pairs: Sequence[tuple[TrialRecord, RecoveryRecord]]
) -> dict[str, Any]:
    """Count right labels; a trial without an answer is a wrong one. Chance is always naming the commonest class."""
    hits = sum(bool(r.label_correct) for _, r in pairs)
    low, high = clopper_pearson(hits, len(trials))
    counts = np.bincount(plan.scenario.labels[plan.scenario.others])
    chance = float(counts.max() / counts.sum())
    p = float(binomtest(hits, len(trials), chance, alternative="greater").pvalue)
    return {"labels_correct": hits, "labels_low": low, "labels_high": high, "labels_chance": chance, "labels_p": p}


def levels_reached(
    trials: Sequence[TrialRecord], recovery: str, labels_p: float | None, limits: Thresholds = THRESHOLDS
) -> tuple[Level, ...]:
    """Return every level that the trials of one finding reach, from ``none`` upwards; failures count against it."""
    met: dict[Level, bool] = {"none": True, "label": labels_p is not None and labels_p <= limits.label_p}
    counts: dict[Level, int] = {"aggregate": 0, "feature": 0, "replay": 0}
    for trial in trials:
        found = trial.of(recovery)
        if found is None:
            continue
        sums, record = _sums_out(found, limits), _record_out(trial, found, limits)
        # A head can come back although the block is wrong, for many states share a head: that alone digs up nothing.
        back = (sums or record) and (_undone(trial, found) or 0.0) >= 1 - limits.replay_share
        counts["aggregate"] += sums
        counts["feature"] += record
        counts["replay"] += back
    met |= {level: hits > 0 and hits >= limits.majority * len(trials) for level, hits in counts.items()}
    return tuple(level for level in LEVELS if met[level])


def _sums_out(found: RecoveryRecord, limits: Thresholds) -> bool:
    errors = (found.relerr_gram, found.relerr_moment)
    return all(error is not None and error <= limits.aggregate_error for error in errors)


def _record_out(trial: TrialRecord, found: RecoveryRecord, limits: Thresholds) -> bool:
    if not found.label_correct or found.relerr_feature is None:
        return False
    guess = trial.feature_guess_error
    return found.relerr_feature <= limits.feature_error and (guess is None or found.relerr_feature < guess)


def _undone(trial: TrialRecord, found: RecoveryRecord) -> float | None:
    """Return the share of the deletion's head change that the replay took back; None if there was no such thing."""
    if found.replay_head_error is None or not trial.deletion_head_change:
        return None
    return 1 - found.replay_head_error / trial.deletion_head_change


def _spread(values: Iterable[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(mean=float(np.mean(known)), median=float(np.median(known)), max=float(np.max(known)))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
