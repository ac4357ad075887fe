"""The effect of the operator's settings: the same attacks without and with them, and what they cost the honest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy.stats import binomtest

from exhume.audit.levels import LEVELS, THRESHOLDS, Level, Thresholds, worst
from exhume.audit.outcome import Outcome
from exhume.audit.plan import BARE, Plan
from exhume.audit.records import CellRecord, Finding, TrialRecord
from exhume.audit.records_defence import (
    CellService,
    DefenceRecord,
    Effect,
    Price,
    PrivacyFigures,
    PrivacySummary,
    RuleRecord,
    SiegeRecord,
    TrialService,
)
from exhume.simulate.rules import in_words, name_of

__all__ = ["effect_of", "siege_level"]

PLAYED = (
    "Besides the paper's probes, which skip what is refused, attackers that know the settings were played on a "
    "federation of their own. What no attacker tried is not shown to be safe."
)
NOT_PLAYED = (
    "There are too few rows for attackers that know the settings: only the paper's probes were played, which skip what "
    "is refused."
)


def effect_of(plan: Plan, outcome: Outcome, findings: Sequence[Finding]) -> DefenceRecord | None:
    """Set the findings without and with the settings side by side; None for an audit of the bare server alone."""
    if plan.defence is None or plan.settings.defence is None:
        return None
    ours = [f for f in findings if f.server != BARE]
    cells = [cell for cell in outcome.cells if cell.server != BARE]
    trials = [trial for trial in outcome.trials if trial.server != BARE]
    counts = np.bincount(plan.scenario.labels[plan.scenario.others])
    chance = float(counts.max() / counts.sum())
    sieges = tuple(s.model_copy(update={"level": siege_level(s, chance, len(outcome.sieges))}) for s in outcome.sieges)
    served = [trial.service for trial in trials if trial.service is not None]
    probed: list[CellService | TrialService] = [*(cell.service for cell in cells if cell.service is not None), *served]
    return DefenceRecord(
        name=name_of(plan.settings.defence),
        rules=tuple(RuleRecord(stage=stage, rule=rule, options=how) for stage, rule, how in in_words(plan.defence)),
        severity_without=worst(f.severity for f in findings if f.server == BARE),
        severity_with=worst([*(f.severity for f in ours), *(s.level for s in sieges)]),
        effects=tuple(_effect(one, _other(one, findings), trials) for one in ours),
        price=_price(cells, trials),
        attack_messages=sum(s.messages for s in probed),
        attack_refused=_summed(s.refused for s in probed),
        attack_withheld=sum(s.withheld for s in probed),
        exposure_without=_exposed(c for c in outcome.cells if c.server == BARE),
        exposure_with=_highest([_exposed(cells), *(s.exposure for s in served)]),
        exposure_honest=_exposed(cells, attacker=False),
        privacy=tuple(_privacy(trials)),
        sieges=sieges,
        caveat=PLAYED if sieges else NOT_PLAYED,
    )


def siege_level(siege: SiegeRecord, chance: float, attackers: int, limits: Thresholds = THRESHOLDS) -> Level:
    """Return the level that an adaptive attacker reaches.

    Labels count as better than guessing by the same test as everywhere, which allows for the number of attackers: the
    best of many lies above chance by luck alone.
    """
    half = limits.majority * siege.trials
    met: dict[Level, bool] = {
        "label": siege.labels_correct is not None
        and attackers * binomtest(siege.labels_correct, siege.trials, chance, alternative="greater").pvalue
        <= limits.label_p,
        "feature": siege.features_right is not None and 0 < siege.features_right >= half,
        # A block that an attacker was told digs up nothing; put back by one who read it, the deletion is undone.
        "replay": siege.labels_correct is not None and 0 < siege.replays >= half,
    }
    return worst(level for level in LEVELS if met.get(level, False))


def _other(one: Finding, findings: Sequence[Finding]) -> Finding | None:
    """Return the same attack on the bare server."""
    same = (one.kind, one.probe, one.recovery)
    return next((f for f in findings if f.server == BARE and (f.kind, f.probe, f.recovery) == same), None)


def _effect(ours: Finding, bare: Finding | None, trials: Sequence[TrialRecord]) -> Effect:
    served = [t.service for t in trials if (t.kind, t.probe) == (ours.kind, ours.probe) and t.service is not None]
    return Effect(
        kind=ours.kind,
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
    return Counter(s.deletion_refused_by for s in served if s.deletion_refused_by is not None)


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
    for kind in dict.fromkeys(t.kind for t in trials):
        found = [
            t.service.privacy
            for t in trials
            if t.kind == kind and t.service is not None and t.service.privacy is not None
        ]
        if found:
            yield PrivacySummary(
                kind=kind, deletions=len(found), median=_over(found, np.median), worst=_over(found, np.max)
            )


def _over(found: Sequence[PrivacyFigures], reduce: Callable[..., Any]) -> PrivacyFigures:
    def values(name: str) -> list[float]:
        # In a record null stands for infinity: a deletion that is not hidden at all.
        return [math.inf if (value := getattr(f, name)) is None else float(value) for f in found]

    return PrivacyFigures(**{name: float(reduce(values(name))) for name in PrivacyFigures.model_fields})
