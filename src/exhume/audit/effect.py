"""The effect of the operator's settings: the same attacks without and with them, and what they cost the honest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from exhume.audit.configured import CONFIGURED, in_words, name_of
from exhume.audit.federation import rule_of
from exhume.audit.levels import worst
from exhume.audit.plan import Plan
from exhume.audit.records import CellRecord, Finding, TrialRecord
from exhume.audit.records_defence import (
    CellService,
    DefenceRecord,
    Effect,
    Price,
    PrivacyFigures,
    PrivacySummary,
    RuleRecord,
    TrialService,
)
from exhume.audit.runner import Outcome

__all__ = ["CAVEAT", "effect_of"]

CAVEAT = (
    "The attackers of an audit are not adapted to the settings: they send the probes of the paper and skip what is "
    "refused. 'exhume advise' plays attackers that know the defence."
)


def effect_of(plan: Plan, outcome: Outcome, findings: Sequence[Finding]) -> DefenceRecord | None:
    """Set the findings without and with the settings side by side; None for an audit of the bare server alone."""
    if plan.defence is None or plan.settings.defence is None:
        return None
    ours = [f for f in findings if f.heads == CONFIGURED]
    cells = [cell for cell in outcome.cells if cell.heads == CONFIGURED]
    trials = [trial for trial in outcome.trials if trial.heads == CONFIGURED]
    served = [trial.service for trial in trials if trial.service is not None]
    probed: list[CellService | TrialService] = [*(cell.service for cell in cells if cell.service is not None), *served]
    return DefenceRecord(
        name=name_of(plan.settings.defence),
        rules=tuple(RuleRecord(stage=stage, rule=rule, options=how) for stage, rule, how in in_words(plan.defence)),
        severity_without=worst(f.severity for f in findings if f.heads != CONFIGURED),
        severity_with=worst(f.severity for f in ours),
        effects=tuple(_effect(one, _other(one, findings), trials) for one in ours),
        price=_price(cells, trials),
        attack_messages=sum(s.messages for s in probed),
        attack_refused=_summed(s.refused for s in probed),
        attack_withheld=sum(s.withheld for s in probed),
        exposure_without=_exposed(c for c in outcome.cells if c.heads != CONFIGURED),
        exposure_with=_highest([_exposed(cells), *(s.exposure for s in served)]),
        exposure_honest=_exposed(cells, attacker=False),
        privacy=tuple(_privacy(trials)),
        caveat=CAVEAT,
    )


def _other(one: Finding, findings: Sequence[Finding]) -> Finding | None:
    """Return the same attack on the bare server."""
    same = (one.delete, one.probe, one.recovery)
    return next((f for f in findings if f.heads != CONFIGURED and (f.delete, f.probe, f.recovery) == same), None)


def _effect(ours: Finding, bare: Finding | None, trials: Sequence[TrialRecord]) -> Effect:
    served = [t.service for t in trials if (t.delete, t.probe) == (ours.delete, ours.probe) and t.service is not None]
    return Effect(
        delete=ours.delete,
        probe=ours.probe,
        recovery=ours.recovery,
        trials=ours.trials,
        level_without="none" if bare is None else bare.severity,
        level_with=ours.severity,
        labels_without=None if bare is None else bare.labels_correct,
        labels_with=ours.labels_correct,
        feature_error_without=None if bare is None or bare.relerr_feature is None else bare.relerr_feature.median,
        feature_error_with=None if ours.relerr_feature is None else ours.relerr_feature.median,
        undone_without=None if bare is None else bare.replay_undone,
        undone_with=ours.replay_undone,
        deletions_refused=sum(s.deletion_refused is not None for s in served),
        replays_refused=sum(s.replays_refused.get(ours.recovery, 0) for s in served),
    )


def _price(cells: Sequence[CellRecord], trials: Sequence[TrialRecord]) -> Price:
    # Uploads are the same in every cell: one is shown.
    start = next((cell.service for cell in cells if cell.service is not None), None)
    pairs = [(t, t.service) for t in trials if t.service is not None]
    lost = [
        t.accuracy_after - s.accuracy_public
        for t, s in pairs
        if t.accuracy_after is not None and s.accuracy_public is not None
    ]
    return Price(
        accuracy_lost=float(np.mean(lost)) if lost else None,
        heads=len(lost),
        uploads=0 if start is None else start.uploads,
        uploads_refused={} if start is None else start.uploads_refused,
        uploads_withheld=0 if start is None else start.uploads_withheld,
        deletions=len(pairs),
        deletions_refused=dict(_refused(s for _, s in pairs)),
        deletions_withheld=sum(s.head_withheld for _, s in pairs),
    )


def _refused(served: Iterable[TrialService]) -> Counter[str]:
    return Counter(rule_of(s.deletion_refused) for s in served if s.deletion_refused is not None)


def _summed(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))


def _exposed(cells: Iterable[CellRecord], *, attacker: bool = True) -> float | None:
    return _highest(e.value for cell in cells for e in cell.exposure if e.attacker is attacker)


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _privacy(trials: Sequence[TrialRecord]) -> Iterable[PrivacySummary]:
    for kind in dict.fromkeys(t.delete for t in trials):
        found = [
            t.service.privacy
            for t in trials
            if t.delete == kind and t.service is not None and t.service.privacy is not None
        ]
        if found:
            yield PrivacySummary(
                delete=kind, deletions=len(found), median=_over(found, np.median), worst=_over(found, np.max)
            )


def _over(found: Sequence[PrivacyFigures], reduce: Callable[..., Any]) -> PrivacyFigures:
    def values(name: str) -> list[float]:
        # In a record null stands for infinity: a deletion that is not hidden at all.
        return [math.inf if (value := getattr(f, name)) is None else float(value) for f in found]

    return PrivacyFigures(**{name: float(reduce(values(name))) for name in PrivacyFigures.model_fields})
